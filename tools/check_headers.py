#!/usr/bin/env python3
"""Compiles each header of src/ alone: a header includes what it needs.

usage: check_headers.py [header...]
"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Included at a special place, or compiled several times, by their own folder.
SKIP_SUFFIX = "-inl.h"


def compile_alone(header):
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-march=x86-64-v2"]
    if os.uname().machine != "x86_64":
        command.pop()
    done = subprocess.run(
        [*command, "-I", ROOT / "src", "-x", "c++", "-"],
        input=f'#include "{header}"\n#include "{header}"\n', capture_output=True, text=True,
    )
    return header, done.returncode, done.stderr


def main():
    src = ROOT / "src"
    headers = sys.argv[1:] or sorted(
        p.relative_to(src).as_posix() for p in src.rglob("*.h") if not p.name.endswith(SKIP_SUFFIX) and "cuda" not in p.parts
    )
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
        failed = [(h, errors) for h, code, errors in pool.map(compile_alone, headers) if code != 0]
    for header, errors in failed:
        print(f"src/{header} does not compile alone:\n{errors}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
