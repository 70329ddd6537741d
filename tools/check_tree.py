#!/usr/bin/env python3
"""Fails on files over their size, headers that cost compile time, and libraries used outside their home.

usage: check_tree.py [root]
"""
import re
import sys
from pathlib import Path

SOURCE_LINES = 500
HEADER_LINES = 200
TEST_DATA_BYTES = 40 << 20

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')

# Library header prefix -> the places below src/ that may include it, in .cc files only.
HOMES = {
    "nlohmann/": ["base/json.cc", "io/", "serve/wire/"],
    "spdlog/": ["base/log.cc"],
    "yaml-cpp/": ["io/"],
    "toml++/": ["io/"],
    "boost/": ["serve/http/"],
    "CLI/": ["apps/"],
    "hwy/": ["backend/cpu/"],
    "dnnl": ["backend/cpu/"],
    "cuda": ["backend/cuda/"],
    "cublas": ["backend/cuda/"],
    "nccl": ["backend/"],
    "oniguruma": ["text/"],
    "pcre2": ["text/"],
    "unicode/": ["text/"],
    "utf8proc": ["text/"],
    "curl/": ["io/", "serve/http/"],
    "openssl/": ["base/sha256.cc", "io/", "serve/http/"],
    "histedit": ["apps/"],
    "editline/": ["apps/"],
}
# fmt is the one library that headers may show (base/log.h, base/error.h).
FMT_HEADERS = {"base/log.h", "base/error.h"}


def include_problem(place, header):
    """Why the file `place` (relative to src/) may not include `header`, or None."""
    is_header = place.endswith((".h", ".cuh"))
    if header == "regex":
        return "<regex> is slow to compile and to run; use text/regex.h"
    if is_header and header == "iostream":
        return "<iostream> does not belong in a header"
    if is_header and header.startswith("fmt/") and place not in FMT_HEADERS:
        return f"<{header}> does not belong in a header"
    for prefix, homes in HOMES.items():
        if header.startswith(prefix):
            # The CUDA folder's own headers may name device types; nobody else includes them.
            if is_header and not place.startswith(("backend/cpu/", "backend/cuda/")):
                return f"<{header}> shows a library in a header"
            if not any(place.startswith(home) for home in homes):
                return f"<{header}> belongs in {', '.join(homes)} only"
    return None


def problems(root):
    sources = [
        p
        for folder in ("src", "tests", "fuzz", "bench")
        for p in sorted((root / folder).rglob("*"))
        if p.suffix in {".h", ".cc", ".cu", ".cuh"}
    ]
    if not sources:
        yield f"{root}: no source files found"
    for path in sources:
        lines = path.read_text().splitlines()
        # An -inl.h is the body of a .cc, compiled once for each instruction set.
        is_header = path.suffix in {".h", ".cuh"} and not path.name.endswith("-inl.h")
        limit = HEADER_LINES if is_header else SOURCE_LINES
        if len(lines) > limit:
            yield f"{path}: {len(lines)} lines, more than {limit}"
        if not path.is_relative_to(root / "src"):
            continue
        place = path.relative_to(root / "src").as_posix()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            why = include_problem(place, match[1]) if match else None
            if why:
                yield f"{path}:{number}: {why}"
    data = sum(p.stat().st_size for p in (root / "tests" / "data").rglob("*") if p.is_file())
    if data > TEST_DATA_BYTES:
        yield f"{root}/tests/data: {data} bytes, more than {TEST_DATA_BYTES}"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(problems(root))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
