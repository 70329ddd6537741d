#!/usr/bin/env python3
"""Writes src/text/unicode_tables.cc and unicode_tables_hf.cc: how Hugging Face tokenizers sees every character.

The library's parts know different versions of Unicode (Oniguruma, Rust's standard library, and several crates), so the
properties are asked of the library itself, character by character. Needs tokenizers==0.23.3 and Python 3.11
(unicodedata 14.0) and libutf8proc.so.2 (2.6), whose data serves as the base that exceptions are relative to.
"""
import ctypes
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Cs", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc",
              "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"]
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def isolated(pre_tokenizer, separator):
    """Code points that a splitting pre-tokenizer cuts out from between two separators."""
    found, width = set(), len(separator)
    for first in range(0, len(POINTS), 4096):
        chunk = POINTS[first:first + 4096]
        text = separator + separator.join(map(chr, chunk)) + separator
        ends = dict(span for _, span in pre_tokenizer.pre_tokenize_str(text))
        for i, cp in enumerate(chunk):
            at = width + i * (1 + width)
            if ends.get(at) == at + 1:
                found.add(cp)
    return found


def regex_set(pattern, separator="\n\n"):
    """The separator must not match: what does not match then hangs together with it."""
    return isolated(pre_tokenizers.Split(Regex(pattern), "isolated"), separator)


def categories():
    table = {cp: "Cn" for cp in POINTS}
    table.update({cp: "Cs" for cp in range(0xD800, 0xE000)})
    for name in CATEGORIES:
        if name not in ("Cn", "Cs"):
            for cp in regex_set(rf"\p{{{name}}}", "xx" if name == "Cc" else "\n\n"):
                table[cp] = name
    return table


def runs_of(points):
    out = []
    for cp in sorted(points):
        if out and out[-1][1] == cp - 1:
            out[-1][1] = cp
        else:
            out.append([cp, cp])
    return out


def removed(normalizer):
    return {cp for cp in POINTS if normalizer.normalize_str(f"a{chr(cp)}a") == "aa"}


def bert(**kwargs):
    options = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**options, **kwargs})


def difference(reference, base):
    return runs_of(reference ^ base)


def scripts():
    """Class of every code point for UnicodeScripts; 0: joins with anything."""
    split = pre_tokenizers.UnicodeScripts()

    def cut(a, b):
        # A third part of known script keeps the reference from dropping what stands in front.
        return len(split.pre_tokenize_str(chr(a) + chr(b))) == 2

    def is_any(cp):
        return not cut(ord("a"), cp) and not cut(ord("я"), cp)

    classes, table, previous = [], {}, None
    for cp in POINTS:
        if previous is not None and table[previous] and not is_any(cp) and not cut(previous, cp):
            table[cp] = table[previous]
        elif is_any(cp):
            table[cp] = 0
        else:
            for number, member in enumerate(classes, 1):
                if not cut(member, cp):
                    table[cp] = number
                    break
            else:
                classes.append(cp)
                table[cp] = len(classes)
        previous = cp
    return table


def class_runs(table):
    out, previous = [], None
    for cp in range(0x110000):
        value = table.get(cp, 0)
        if value != previous:
            out.append((cp, value))
            previous = value
    return out


def newer(table):
    """Ranges whose category is not Unicode 14's, each with the category."""
    out = []
    for cp in POINTS:
        if table[cp] == unicodedata.category(chr(cp)):
            continue
        index = CATEGORIES.index(table[cp])
        if out and out[-1][1] == cp - 1 and out[-1][2] == index:
            out[-1][1] = cp
        else:
            out.append([cp, cp, index])
    return out


def fold_exceptions():
    """Lower-case mappings that utf8proc 2.6 (Unicode 13) does not give."""
    tolower = ctypes.CDLL("libutf8proc.so.2").utf8proc_tolower
    lower = normalizers.Lowercase()
    out = []
    for cp in POINTS:
        got = lower.normalize_str(chr(cp))
        if got != chr(tolower(cp)) and cp != 0x130:  # whose two characters the code knows
            assert len(got) == 1, hex(cp)
            out.append((cp, ord(got)))
    return out


def inert():
    """Code points that the normalization crate (Unicode 9) leaves alone though Unicode 14 does not."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    out = set()
    for cp in POINTS:
        c = chr(cp)
        if unicodedata.combining(c):
            probe = "a" + c + "\u0334" if unicodedata.combining(c) > 1 else "a\u0345" + c
            if nfd.normalize_str(probe) == probe:
                out.add(cp)
        for form, mine in (("NFD", nfd), ("NFKD", nfkd)):
            if mine.normalize_str(c) == c != unicodedata.normalize(form, c):
                out.add(cp)
    return out


def wrap(values, width=100):
    line, lines = "   ", []
    for v in values:
        text = f" 0x{v:x},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join(lines + [line])


def write(path, tables):
    with open(path, "w") as out:
        out.write("// Written by tools/reference/tokenizers_unicode.py; see there for what the tables mean.\n"
                  '#include <iterator>\n\n#include "text/unicode_tables.h"\n\n'
                  "namespace mlxcel::text::unicode {\nnamespace {\n\n// clang-format off\n")
        for name, values in tables:
            out.write(f"constexpr uint32_t {name}Data[] = {{\n{wrap(values)}\n}};\n")
        out.write("// clang-format on\n\n}  // namespace\n\n")
        for name, _ in tables:
            out.write(f"const Table {name}{{{name}Data, std::size({name}Data)}};\n")
        out.write("\n}  // namespace mlxcel::text::unicode\n")
        print({name: len(values) for name, values in tables})


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    table = categories()
    of = lambda *names: {cp for cp, c in table.items() if c in names or c[0] in names}
    ascii_punctuation = {cp for cp in range(0x21, 0x7F) if not chr(cp).isalnum()}
    words = {cp for cp in POINTS if len(pre_tokenizers.Whitespace().pre_tokenize_str(f"x{chr(cp)}x")) == 1}
    sets = {
        "OnigurumaWord": difference(regex_set(r"\w"), of("L", "M", "Nd", "Nl", "Pc")),
        "OnigurumaAlpha": difference(regex_set("[[:alpha:]]"), of("L", "Nl")),
        "RustWord": difference(words, of("L", "M", "Nd", "Nl", "Pc")),
        "RustNumeric": difference(isolated(pre_tokenizers.Digits(True), "x"), of("N")),
        "HfPunctuation": difference(isolated(pre_tokenizers.Punctuation("isolated"), "x"), of("P") | ascii_punctuation),
        "BertRemoved": difference(removed(bert(clean_text=True)), of("Cc", "Cf", "Co") - {9, 10, 13} | {0xFFFD}),
        "HfNonspacing": difference(removed(bert(strip_accents=True)), of("Mn")),
        "HfCombining": difference(removed(normalizers.StripAccents()), of("M")),
        "NormalizationInert": runs_of(inert()),
    }
    category_runs, previous = [], None
    for cp in range(0x110000):
        index = CATEGORIES.index(table[cp])
        if index != previous:
            category_runs.append(cp << 5 | index)
            previous = index
    tables = [("kCategoryRuns", category_runs)]
    for name, ranges in sets.items():
        tables.append((f"k{name}", [v for r in ranges for v in r]))
    tables.append(("kCategoryNews", [v for r in newer(table) for v in r]))
    tables.append(("kLowercase", [v for pair in fold_exceptions() for v in pair]))
    tables.append(("kScriptRuns", [cp << 8 | value for cp, value in class_runs(scripts())]))
    folder = sys.argv[1] if len(sys.argv) > 1 else "src/text"
    write(f"{folder}/unicode_tables.cc", tables[:1])
    write(f"{folder}/unicode_tables_hf.cc", tables[1:])


if __name__ == "__main__":
    main()
