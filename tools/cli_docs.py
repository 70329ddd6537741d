#!/usr/bin/env python3
"""Writes docs/cli.md from what the program itself prints.

usage: cli_docs.py [--check] [PROGRAM]      (default: build/release/bin/mlxcel)

--check compares instead of writing and exits 1 when they differ.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# Command line

Written by `tools/cli_docs.py` from the program's own help; a test compares the two.

Results go to standard output, everything else to standard error. The exit code is 0 on success, 1 when the command failed, 2 when the command line
was wrong. Flags of the full product that this build does not have are refused with "not available in this build".
"""


def helped(program, *command):
    done = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    # CLI11 prints the name under which the program was started.
    lines = [line.replace(str(program), "mlxcel") for line in lines]
    return "\n".join(lines) + "\n"


def commands(text):
    """Names in the list of subcommands, aliases left out."""
    listed = text.split("Subcommands:\n", 1)[1]
    return [m[1] for m in re.finditer(r"^  (\S+?)(?:,.*?)? ", listed, re.M)]


def render(program):
    top = helped(program)
    parts = [HEAD, f"## mlxcel\n\n```text\n{top}```\n"]
    for name in commands(top):
        parts.append(f"## mlxcel {name}\n\n```text\n{helped(program, name)}```\n")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="build/release/bin/mlxcel")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    text = render(args.program)
    if not args.check:
        TARGET.write_text(text)
        return 0
    if TARGET.read_text() == text:
        return 0
    print(f"{TARGET} differs from the program's help; run tools/cli_docs.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
