#!/usr/bin/env python3
"""Runs a command, hands its output through, and prints its peak resident memory (and that over a file's size, if named).

usage: peak_memory.py [--over FILE] -- command...
"""
import argparse
import os
import resource
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--over")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    code = subprocess.run(args.command).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    line = f"Peak memory: {peak / 2**20:.1f} MiB"
    if args.over and os.path.isfile(args.over):
        size = os.path.getsize(args.over)
        line += f" ({peak / size:.2f} x the {size / 2**20:.1f} MiB of {os.path.basename(args.over)})"
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
