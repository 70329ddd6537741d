// Character properties as the reference tokenizers see them (Unicode 14 general categories).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::text::unicode {

enum class Category : uint8_t {
  Cn,
  Cc,
  Cf,
  Co,
  Cs,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
};

/// A set of categories, one bit each.
using CategorySet = uint32_t;

template <class... C>
constexpr CategorySet set_of(C... categories) {
  return ((CategorySet{1} << static_cast<unsigned>(categories)) | ...);
}

constexpr CategorySet kUpper = set_of(Category::Lu, Category::Lt, Category::Lm, Category::Lo);
constexpr CategorySet kLetter =
    set_of(Category::Lu, Category::Ll, Category::Lt, Category::Lm, Category::Lo);
constexpr CategorySet kMark = set_of(Category::Mn, Category::Mc, Category::Me);
constexpr CategorySet kNumber = set_of(Category::Nd, Category::Nl, Category::No);
constexpr CategorySet kPunctuation = set_of(Category::Pc, Category::Pd, Category::Ps, Category::Pe,
                                            Category::Pi, Category::Pf, Category::Po);
constexpr CategorySet kSymbol = set_of(Category::Sm, Category::Sc, Category::Sk, Category::So);

/// Two-level table of categories, built once.
struct CategoryTable {
  CategoryTable();
  static constexpr unsigned kBlockBits = 7;
  std::array<uint16_t, (0x110000 >> kBlockBits)> block;
  std::vector<uint8_t> cells;
};
const CategoryTable& category_table();

inline Category category(char32_t cp) {
  static const CategoryTable& table = category_table();
  if (cp >= 0x110000) return Category::Cn;
  const size_t block = table.block[cp >> CategoryTable::kBlockBits];
  const size_t cell = cp & ((1U << CategoryTable::kBlockBits) - 1);
  return static_cast<Category>(table.cells[(block << CategoryTable::kBlockBits) + cell]);
}
inline bool in(char32_t cp, CategorySet set) {
  return ((set >> static_cast<unsigned>(category(cp))) & 1) != 0;
}

/// Categories of ASCII, known to the compiler.
constexpr Category ascii_category(unsigned c) {
  if (c < 0x20 || c == 0x7F) return Category::Cc;
  if (c == ' ') return Category::Zs;
  if (c >= '0' && c <= '9') return Category::Nd;
  if (c >= 'A' && c <= 'Z') return Category::Lu;
  if (c >= 'a' && c <= 'z') return Category::Ll;
  switch (c) {
    case '$':
      return Category::Sc;
    case '+':
    case '<':
    case '=':
    case '>':
    case '|':
    case '~':
      return Category::Sm;
    case '^':
    case '`':
      return Category::Sk;
    case '(':
    case '[':
    case '{':
      return Category::Ps;
    case ')':
    case ']':
    case '}':
      return Category::Pe;
    case '-':
      return Category::Pd;
    case '_':
      return Category::Pc;
    default:
      return Category::Po;
  }
}
template <CategorySet Set>
constexpr std::array<bool, 128> ascii_members() {
  std::array<bool, 128> out{};
  for (unsigned c = 0; c < 128; ++c) {
    out[c] = ((Set >> static_cast<unsigned>(ascii_category(c))) & 1) != 0;
  }
  return out;
}
/// in() for a set known to the compiler.
template <CategorySet Set>
inline bool in(char32_t c) {
  static constexpr std::array<bool, 128> kAscii = ascii_members<Set>();
  return c < 128 ? kAscii[c] : in(c, Set);
}

/// The White_Space property, unchanged since Unicode 6.3.
constexpr bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Decodes the character at `text[at]` of well-formed UTF-8 and moves `at` behind it.
inline char32_t next(std::string_view text, size_t& at) {
  const auto b = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = b(at);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  if (first < 0xE0) {
    at += 2;
    return (first & 0x1F) << 6 | (b(at - 1) & 0x3F);
  }
  if (first < 0xF0) {
    at += 3;
    return (first & 0x0F) << 12 | (b(at - 2) & 0x3F) << 6 | (b(at - 1) & 0x3F);
  }
  at += 4;
  return (first & 0x07) << 18 | (b(at - 3) & 0x3F) << 12 | (b(at - 2) & 0x3F) << 6 |
         (b(at - 1) & 0x3F);
}

/// Start of the character that ends before `at` (at > 0) of well-formed UTF-8.
inline size_t previous(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

/// True when `text` is well-formed UTF-8; fast on ASCII.
bool is_valid(std::string_view text);
bool is_ascii(std::string_view text);

// GPT-2's reversible mapping of bytes to printable characters.
char32_t byte_to_char(uint8_t byte);
/// The byte behind a character of that alphabet, or -1.
int char_to_byte(char32_t c);
/// Appends `bytes` in the alphabet, as UTF-8.
void append_byte_level(std::string& out, std::string_view bytes);
/// The bytes behind `text`; false when a character is outside the alphabet (out is then undefined).
bool decode_byte_level(std::string_view text, std::string& out);

}  // namespace mlxcel::text::unicode
