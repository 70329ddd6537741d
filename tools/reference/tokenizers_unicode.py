#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cc: the Unicode 14 general categories as one sorted range table.

Unicode 14 is what Oniguruma 6.9.8, the regular-expression engine of Hugging Face tokenizers 0.23.3, knows.
Run with a Python whose unicodedata.unidata_version is 14.0.0 (Python 3.11).
"""
import sys
import unicodedata

ORDER = ["Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
         "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"]


def wrap(values, width=100):
    line, lines = "   ", []
    for v in values:
        text = f" 0x{v:x},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join(lines + [line])


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    runs, previous = [], None
    for cp in range(0x110000):
        category = ORDER.index(unicodedata.category(chr(cp)))
        if category != previous:
            runs.append(cp << 5 | category)
            previous = category
    with open(sys.argv[1] if len(sys.argv) > 1 else "src/text/unicode_tables.cc", "w") as out:
        out.write("// Written by tools/reference/tokenizers_unicode.py from the Unicode 14 character database.\n"
                  '#include "text/unicode_tables.h"\n\n'
                  "namespace mlxcel::text::unicode {\n\n"
                  "// clang-format off\n"
                  f"const uint32_t kCategoryRuns[{len(runs)}] = {{\n{wrap(runs)}\n}};\n"
                  "// clang-format on\n"
                  f"const size_t kCategoryRunCount = {len(runs)};\n\n"
                  "}  // namespace mlxcel::text::unicode\n")


main()
