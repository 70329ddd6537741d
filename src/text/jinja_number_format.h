// Number formatting shared by '%'-formatting and format specifications.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja_runtime.h"

namespace mlxcel::text::jinja {

/// Digits of |value| in base 2, 8, 10 or 16, lower case.
std::string digits_of(uint64_t magnitude, int base);
uint64_t magnitude_of(int64_t value);

/// |value| in style e, f or g with `precision` digits; inf and nan by name. `alternate` keeps the
/// point and trailing zeros.
std::string float_digits(double value, char style, int precision, bool alternate);

/// Puts `separator` between groups of `group` digits of the integer part at the front of `number`.
std::string group_digits(std::string_view number, char separator, size_t group);

/// Checks a width or precision of a format; throws when it is absurd.
int checked_width(Runtime& runtime, int64_t width);

}  // namespace mlxcel::text::jinja
