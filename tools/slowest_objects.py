#!/usr/bin/env python3
"""Prints the slowest build steps of a Ninja build folder and the time of the whole build.

usage: slowest_objects.py <build folder> [--top 20] [--limit seconds]

Times are wall-clock seconds of each step as Ninja logged its last run, so steps that ran beside others look slower than
alone. With --limit, exits 1 when an object file took longer.
"""
import argparse
import sys
from pathlib import Path


def read_log(path):
    """{output: (start, end) in ms}, the last run of each output."""
    steps = {}
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 5:
            start, end, _, output, _ = fields
            steps[output] = (int(start), int(end))
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--limit", type=float)
    args = parser.parse_args()
    steps = read_log(args.build / ".ninja_log")
    if not steps:
        print(f"{args.build}/.ninja_log lists no steps", file=sys.stderr)
        return 1
    seconds = {output: (end - start) / 1000 for output, (start, end) in steps.items()}
    objects = {output: s for output, s in seconds.items() if output.endswith(".o")}
    for output, s in sorted(seconds.items(), key=lambda item: -item[1])[: args.top]:
        print(f"{s:8.1f} s  {output}")
    print(f"{sum(objects.values()):8.1f} s  in {len(objects)} object files, added up")
    slow = [output for output, s in objects.items() if args.limit and s > args.limit]
    for output in slow:
        print(f"over the limit of {args.limit} s: {output}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
