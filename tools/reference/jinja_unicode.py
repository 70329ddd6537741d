#!/usr/bin/env python3
"""Writes src/text/jinja_unicode_tables.cc: where Python's str methods differ from utf8proc's simple properties.

Pinned: CPython 3.11 (Unicode 14.0), libutf8proc 2.8. Run: python tools/reference/jinja_unicode.py > src/text/jinja_unicode_tables.cc
"""
import ctypes
import sys
import unicodedata

lib = ctypes.CDLL("libutf8proc.so.2")
for name in ("toupper", "tolower", "totitle"):
    f = getattr(lib, "utf8proc_" + name)
    f.argtypes, f.restype = [ctypes.c_int32], ctypes.c_int32

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out, start = [], None
    for c in range(0x110001):
        inside = c < 0x110000 and not 0xD800 <= c < 0xE000 and test(chr(c))
        if inside and start is None:
            start = c
        if not inside and start is not None:
            out.append((start, c - 1))
            start = None
    return out


def mappings(method, simple):
    rows = []
    for c in CODES:
        want = getattr(chr(c), method)()
        have = simple(c)
        if unicodedata.category(chr(c)) != "Cn" and [ord(x) for x in want] != [have]:
            rows.append((c, [ord(x) for x in want]))
    return rows


def print_ranges(name, rows):
    print(f"constexpr CodeRange {name}[] = {{")
    for i in range(0, len(rows), 5):
        print("    " + " ".join(f"{{0x{a:X}, 0x{b:X}}}," for a, b in rows[i:i + 5]))
    print("};")


def print_mappings(name, rows):
    print(f"constexpr CaseMapping {name}[] = {{")
    for i in range(0, len(rows), 3):
        parts = []
        for c, to in rows[i:i + 3]:
            to = to + [0] * (3 - len(to))
            parts.append(f"{{0x{c:X}, {{0x{to[0]:X}, 0x{to[1]:X}, 0x{to[2]:X}}}}},")
        print("    " + " ".join(parts))
    print("};")


cat = unicodedata.category
assert sys.version_info[:2] == (3, 11), "the tables are pinned to CPython 3.11"
print("// Written by tools/reference/jinja_unicode.py: Unicode 14 facts that utf8proc's simple properties lack.")
print('#include "text/jinja_unicode_tables.h"\n\nnamespace mlxcel::text::jinja::tables {\n\nnamespace {\n')
print("// clang-format off")
print_ranges("kDigit", ranges(lambda ch: ch.isdigit() and cat(ch) != "Nd"))
print_ranges("kNumeric", ranges(lambda ch: ch.isnumeric() and not ch.isdigit()))
print_ranges("kOtherLower", ranges(lambda ch: ch.islower() and cat(ch) != "Ll"))
print_ranges("kOtherUpper", ranges(lambda ch: ch.isupper() and cat(ch) != "Lu"))
print_mappings("kUpper", mappings("upper", lib.utf8proc_toupper))
print_mappings("kLower", mappings("lower", lib.utf8proc_tolower))
print_mappings("kTitle", mappings("title", lib.utf8proc_totitle))
print("// clang-format on")
print("""
}  // namespace

std::span<const CodeRange> digit() { return kDigit; }
std::span<const CodeRange> numeric() { return kNumeric; }
std::span<const CodeRange> other_lower() { return kOtherLower; }
std::span<const CodeRange> other_upper() { return kOtherUpper; }
std::span<const CaseMapping> upper() { return kUpper; }
std::span<const CaseMapping> lower() { return kLower; }
std::span<const CaseMapping> title() { return kTitle; }

}  // namespace mlxcel::text::jinja::tables""")
