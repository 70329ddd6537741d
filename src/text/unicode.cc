#include "text/unicode.h"

#include <cstring>

#include "base/utf8.h"
#include "text/unicode_tables.h"

namespace mlxcel::text::unicode {
namespace {

// Printable Latin-1 bytes stand for themselves; the other 68 follow from U+0100 on, in byte order.
struct ByteAlphabet {
  std::array<uint16_t, 256> to_char{};
  std::array<int16_t, 0x144> to_byte{};
  std::array<std::array<char, 2>, 256> utf8{};
  std::array<uint8_t, 256> utf8_length{};

  ByteAlphabet() {
    to_byte.fill(-1);
    unsigned extra = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const unsigned c = printable ? b : extra++;
      to_char[b] = static_cast<uint16_t>(c);
      to_byte[c] = static_cast<int16_t>(b);
      std::string s;
      utf8::append(s, c);
      utf8_length[b] = static_cast<uint8_t>(s.size());
      std::memcpy(utf8[b].data(), s.data(), s.size());
    }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

}  // namespace

CategoryTable::CategoryTable() {
  constexpr uint32_t kBlock = 1U << kBlockBits;
  std::array<int32_t, 32> uniform{};  // block that holds one category only, or -1
  uniform.fill(-1);
  size_t run = 0;
  const auto end_of = [](size_t r) {
    return r + 1 < kCategoryRuns.size ? kCategoryRuns.data[r + 1] >> 5 : 0x110000U;
  };
  for (uint32_t b = 0; b < block.size(); ++b) {
    const uint32_t begin = b << kBlockBits;
    while (end_of(run) <= begin) ++run;
    const uint32_t first = kCategoryRuns.data[run] & 31;
    const bool whole = end_of(run) >= begin + kBlock;
    if (whole && uniform[first] >= 0) {
      block[b] = static_cast<uint16_t>(uniform[first]);
      continue;
    }
    const auto index = static_cast<uint16_t>(cells.size() >> kBlockBits);
    block[b] = index;
    if (whole) uniform[first] = index;
    for (uint32_t cp = begin; cp < begin + kBlock; ++cp) {
      while (end_of(run) <= cp) ++run;
      cells.push_back(static_cast<uint8_t>(kCategoryRuns.data[run] & 31));
    }
  }
}

const CategoryTable& category_table() {
  static const CategoryTable table;
  return table;
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<uint8_t>(text[i]) >= 0x80) return false;
  }
  return true;
}

bool is_valid(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (i + 8 <= text.size()) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        i += 8;
        continue;
      }
    }
    const auto first = static_cast<uint8_t>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    if (first >= 0xC2 && first < 0xE0 && i + 1 < text.size() &&
        static_cast<uint8_t>(text[i + 1]) >> 6U == 2) {
      i += 2;
      continue;
    }
    const utf8::Decoded d = utf8::decode(text.substr(i));
    if (!d.valid) return false;
    i += static_cast<size_t>(d.length);
  }
  return true;
}

char32_t byte_to_char(uint8_t byte) { return alphabet().to_char[byte]; }

int char_to_byte(char32_t c) { return c < alphabet().to_byte.size() ? alphabet().to_byte[c] : -1; }

void append_byte_level(std::string& out, std::string_view bytes) {
  const ByteAlphabet& a = alphabet();
  for (const char c : bytes) {
    const auto b = static_cast<uint8_t>(c);
    out.append(a.utf8[b].data(), a.utf8_length[b]);
  }
}

bool decode_byte_level(std::string_view text, std::string& out) {
  out.clear();
  const ByteAlphabet& a = alphabet();
  // The alphabet has one- and two-byte characters only.
  for (size_t i = 0; i < text.size();) {
    auto c = static_cast<uint8_t>(text[i++]);
    uint32_t code = c;
    if (c >= 0x80) {
      if (c >> 5U != 6 || i == text.size()) return false;
      const auto second = static_cast<uint8_t>(text[i++]);
      if (second >> 6U != 2) return false;
      code = static_cast<uint32_t>(c & 0x1FU) << 6U | (second & 0x3FU);
      if (code < 0x80) return false;  // an overlong spelling
    }
    if (code >= a.to_byte.size() || a.to_byte[code] < 0) return false;
    out.push_back(static_cast<char>(a.to_byte[code]));
  }
  return true;
}

}  // namespace mlxcel::text::unicode
