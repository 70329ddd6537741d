// Character classes and case mappings of Python's str, on UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mlxcel::text::jinja {

bool is_space(char32_t c);
bool is_word(char32_t c);  // regular expressions' \w
bool is_identifier_start(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_printable(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);

/// Decimal value of a digit character, -1 for others.
int decimal_value(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);  // with the final-sigma rule
std::string to_title(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string case_fold(std::string_view text);

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
/// Strip characters out of `chars` instead of white space.
std::string_view strip_left(std::string_view text, std::string_view chars);
std::string_view strip_right(std::string_view text, std::string_view chars);

std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

/// Byte offset of the first `needle` at or after `from`, or npos; linear even in the worst case.
size_t find_text(std::string_view text, std::string_view needle, size_t from = 0);

/// Byte offset of code point `index` (at most the length).
size_t byte_offset(std::string_view text, size_t index);

}  // namespace mlxcel::text::jinja
