// Number and string literals of the template language: Python's, with underscores and escapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlxcel::text::jinja {

/// Length of the identifier at the start of `text`, 0 when there is none.
size_t name_length(std::string_view text);
/// Length of the float literal at the start, 0 when there is none: `1.5`, `1e3`, `1_0.5`.
size_t float_length(std::string_view text);
/// Length of the integer literal at the start (a digit must be there): `10`, `0x1f`, `1_000`.
size_t integer_length(std::string_view text);
double parse_float_literal(std::string_view literal);
/// False when the value does not fit 64 bits.
bool parse_integer_literal(std::string_view literal, int64_t& value);
/// Resolves backslash escapes; unknown ones keep their backslash. False with `problem` set for a
/// truncated or named escape.
bool unescape(std::string_view body, std::string& value, std::string& problem);

}  // namespace mlxcel::text::jinja
