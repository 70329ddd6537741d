// int() and float() of Python on text.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

/// Trims white space and turns every decimal digit of Unicode into an ASCII one.
std::string plain_digits(std::string_view text) {
  std::string out;
  text = strip_right(strip_left(text));
  for (const char32_t c : decode(text)) {
    const int digit = decimal_value(c);
    if (digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      utf8::append(out, c);
    }
  }
  return out;
}

/// Drops single underscores between digits; false where one may not stand.
bool drop_underscores(std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto alphanumeric = [](char c) {
      return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    };
    if (i == 0 || i + 1 >= text.size() || !alphanumeric(text[i - 1]) ||
        !alphanumeric(text[i + 1])) {
      return false;
    }
  }
  text = std::move(out);
  return true;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

}  // namespace

bool parse_python_int(std::string_view input, int base, int64_t& value) {
  if (base != 0 && (base < 2 || base > 36)) {
    fail(Fault::Value, "int() base must be >= 2 and <= 36, or 0");
  }
  if (input.size() > 4300) return false;  // Python's own limit on digits
  std::string text = plain_digits(input);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  const int prefix = base_of_prefix(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.erase(0, 2);
    if (text.starts_with('_')) text.erase(0, 1);
    base = prefix;
  }
  if (base == 0) {
    // Without a base, a leading zero is only allowed in zero itself.
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string::npos) {
      return false;
    }
    base = 10;
  }
  if (!drop_underscores(text) || text.empty()) return false;
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (end != text.data() + text.size()) return false;
  const uint64_t limit = uint64_t{1} << 63;
  if (error != std::errc() || magnitude > limit || (!negative && magnitude == limit)) {
    fail(Fault::Overflow, "the integer '" + text + "' does not fit 64 bits");
  }
  value =
      negative ? static_cast<int64_t>(uint64_t{0} - magnitude) : static_cast<int64_t>(magnitude);
  return true;
}

bool parse_python_float(std::string_view input, double& value) {
  std::string text = plain_digits(input);
  if (!drop_underscores(text)) return false;
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty()) return false;
  const std::string word = to_lower(rest);
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (rest.find_first_not_of("0123456789.eE+-") != std::string_view::npos || rest[0] == '-' ||
        rest[0] == '+') {
      return false;
    }
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (end != rest.data() + rest.size()) return false;
    if (error == std::errc::result_out_of_range)
      value = std::strtod(std::string(rest).c_str(), nullptr);
  }
  if (negative) value = -value;
  return true;
}

}  // namespace mlxcel::text::jinja
