// UTF-8 decoding, encoding and repair (Unicode 15, section 3.9: maximal-subpart replacement).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mlxcel::utf8 {

constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code_point = 0;  // kReplacement when !valid
  int length = 0;           // bytes consumed, at least 1 for a non-empty input
  bool valid = false;
};

/// The first code point of `text` (non-empty). An ill-formed sequence consumes its maximal valid
/// prefix.
Decoded decode(std::string_view text);
void append(std::string& out, char32_t code_point);
bool is_valid(std::string_view text);
/// Length of the longest prefix that does not end inside a (so far valid) multi-byte character.
size_t complete_prefix(std::string_view text);
/// `text` with every ill-formed sequence replaced by U+FFFD.
std::string repair(std::string_view text);
/// Number of code points of valid UTF-8.
size_t count(std::string_view text);

}  // namespace mlxcel::utf8
