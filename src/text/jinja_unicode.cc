#include "text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/utf8.h"
#include "text/jinja_unicode_tables.h"

namespace mlxcel::text::jinja {

namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool in(std::span<const tables::CodeRange> ranges, char32_t c) {
  const auto it =
      std::upper_bound(ranges.begin(), ranges.end(), c,
                       [](char32_t x, const tables::CodeRange& r) { return x < r.first; });
  return it != ranges.begin() && c <= std::prev(it)->last;
}

using Simple = utf8proc_int32_t (*)(utf8proc_int32_t);

void map_case(std::string& out, char32_t c, std::span<const tables::CaseMapping> full,
              Simple simple) {
  const auto it =
      std::lower_bound(full.begin(), full.end(), c,
                       [](const tables::CaseMapping& m, char32_t x) { return m.from < x; });
  if (it == full.end() || it->from != c) {
    utf8::append(out, static_cast<char32_t>(simple(static_cast<utf8proc_int32_t>(c))));
    return;
  }
  for (const char32_t to : it->to) {
    if (to != 0) utf8::append(out, to);
  }
}

void append_upper(std::string& out, char32_t c) {
  map_case(out, c, tables::upper(), utf8proc_toupper);
}
void append_title(std::string& out, char32_t c) {
  map_case(out, c, tables::title(), utf8proc_totitle);
}

bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  static constexpr std::array<char32_t, 14> kPunctuation = {0x27,   0x2E,   0x3A,   0xB7,   0x387,
                                                            0x55F,  0x5F4,  0x2018, 0x2019, 0x2024,
                                                            0x2027, 0xFE13, 0xFE52, 0xFE55};
  return std::find(kPunctuation.begin(), kPunctuation.end(), c) != kPunctuation.end();
}

/// SpecialCasing's Final_Sigma: a cased letter before, none after, ignorable ones between.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t i = at;
  while (i > 0 && is_case_ignorable(text[i - 1])) --i;
  if (i == 0 || !is_cased(text[i - 1])) return false;
  i = at + 1;
  while (i < text.size() && is_case_ignorable(text[i])) ++i;
  return i == text.size() || !is_cased(text[i]);
}

void append_lower(std::string& out, std::u32string_view text, size_t at) {
  if (text[at] == 0x3A3) {
    utf8::append(out, is_final_sigma(text, at) ? 0x3C2 : 0x3C3);
  } else {
    map_case(out, text[at], tables::lower(), utf8proc_tolower);
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

std::string ascii_map(std::string_view text, char (*map)(char)) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), map);
  return out;
}

template <class Member>
std::string_view strip_left_if(std::string_view text, const Member& member) {
  while (!text.empty()) {
    const utf8::Decoded c = utf8::decode(text);
    if (!member(c.code_point)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  return text;
}

template <class Member>
std::string_view strip_right_if(std::string_view text, const Member& member) {
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 &&
           (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80)
      --start;
    if (!member(utf8::decode(text.substr(start)).code_point)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}
bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) { return is_decimal(c) || in(tables::digit(), c); }
bool is_numeric(char32_t c) { return is_digit(c) || in(tables::numeric(), c); }
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }
bool is_identifier_start(char32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
      return false;
    default:
      return true;
  }
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || in(tables::other_lower(), c);
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || in(tables::other_upper(), c);
}
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }

int decimal_value(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9' ? static_cast<int>(c - '0') : -1;
  if (!is_decimal(c)) return -1;
  if (c >= 0x1D7CE && c <= 0x1D7FF) return static_cast<int>((c - 0x1D7CE) % 10);
  // All other decimal digits come in runs of ten with a gap between them.
  char32_t zero = c;
  while (c - zero < 9 && is_decimal(zero - 1)) --zero;
  return static_cast<int>(c - zero);
}

std::string to_upper(std::string_view text) {
  if (is_ascii(text)) return ascii_map(text, ascii_upper);
  std::string out;
  for (const char32_t c : decode(text)) append_upper(out, c);
  return out;
}

std::string to_lower(std::string_view text) {
  if (is_ascii(text)) return ascii_map(text, ascii_lower);
  const std::u32string all = decode(text);
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) append_lower(out, all, i);
  return out;
}

std::string to_title(std::string_view text) {
  const std::u32string all = decode(text);
  std::string out;
  bool inside = false;  // after a cased letter
  for (size_t i = 0; i < all.size(); ++i) {
    if (inside) {
      append_lower(out, all, i);
    } else {
      append_title(out, all[i]);
    }
    inside = is_cased(all[i]);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string all = decode(text);
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0) {
      append_title(out, all[i]);
    } else {
      append_lower(out, all, i);
    }
  }
  return out;
}

std::string swap_case(std::string_view text) {
  const std::u32string all = decode(text);
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_upper(all[i])) {
      append_lower(out, all, i);
    } else if (is_lower(all[i])) {
      append_upper(out, all[i]);
    } else {
      utf8::append(out, all[i]);
    }
  }
  return out;
}

std::string case_fold(std::string_view text) {
  std::string out;
  for (const char32_t c : decode(text)) {
    std::array<utf8proc_int32_t, 8> folded{};
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded.data(),
                                           static_cast<utf8proc_ssize_t>(folded.size()),
                                           UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; ++i) {
      utf8::append(out, static_cast<char32_t>(folded[static_cast<size_t>(i)]));
    }
  }
  return out;
}

std::string_view strip_left(std::string_view text) { return strip_left_if(text, is_space); }
std::string_view strip_right(std::string_view text) { return strip_right_if(text, is_space); }

std::string_view strip_left(std::string_view text, std::string_view chars) {
  std::u32string set = decode(chars);
  std::sort(set.begin(), set.end());
  return strip_left_if(text,
                       [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}
std::string_view strip_right(std::string_view text, std::string_view chars) {
  std::u32string set = decode(chars);
  std::sort(set.begin(), set.end());
  return strip_right_if(text,
                        [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(i));
    out += c.code_point;
    i += static_cast<size_t>(c.length);
  }
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) utf8::append(out, c);
  return out;
}

size_t find_text(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* at = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return at == nullptr ? std::string_view::npos
                       : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    at += static_cast<size_t>(utf8::decode(text.substr(at)).length);
  }
  return at;
}

}  // namespace mlxcel::text::jinja
