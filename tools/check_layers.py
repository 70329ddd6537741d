#!/usr/bin/env python3
"""Fails when a file of src/ includes a folder that src/layers.txt does not allow.

usage: check_layers.py [root]
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_rules(path):
    rules = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            folder, allowed = line.split(":")
            rules[folder.strip()] = set(allowed.split()) | {folder.strip()}
    return rules


def violations(root):
    src = root / "src"
    rules = read_rules(src / "layers.txt")
    files = [p for p in sorted(src.rglob("*")) if p.suffix in {".h", ".cc", ".cu", ".cuh", ".def"}]
    if not files:
        yield f"{src}: no source files found"
    for path in files:
        folder = path.relative_to(src).parts[0]
        if folder not in rules:
            yield f"{path}: folder '{folder}' is not in src/layers.txt"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match[1].split("/")[0]
            if "/" not in match[1] or target not in rules:
                yield f'{path}:{number}: "{match[1]}" is not written as "<folder>/<file>" from src/'
            elif "*" not in rules[folder] and target not in rules[folder]:
                yield f'{path}:{number}: {folder} may not include "{match[1]}" (src/layers.txt)'
            elif target == "backend" and folder not in {"backend", "apps"}:
                yield f'{path}:{number}: only programs and tests include "{match[1]}"'


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
