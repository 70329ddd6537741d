#include "text/jinja_number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mlxcel::text::jinja {

std::string digits_of(uint64_t magnitude, int base) {
  std::string out;
  do {
    out += "0123456789abcdef"[magnitude % static_cast<uint64_t>(base)];
    magnitude /= static_cast<uint64_t>(base);
  } while (magnitude != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

uint64_t magnitude_of(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

std::string float_digits(double value, char style, int precision, bool alternate) {
  value = std::abs(value);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  const std::string format = std::string(alternate ? "%#.*" : "%.*") + style;
  const int length = std::snprintf(nullptr, 0, format.c_str(), precision, value);
  std::string out(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(out.data(), out.size(), format.c_str(), precision, value);
  out.pop_back();
  return out;
}

std::string group_digits(std::string_view number, char separator, size_t group) {
  const size_t count = std::min(number.find_first_not_of("0123456789abcdefABCDEF"), number.size());
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0 && (count - i) % group == 0) out += separator;
    out += number[i];
  }
  out += number.substr(count);
  return out;
}

int checked_width(Runtime& runtime, int64_t width) {
  runtime.heap().check_string(static_cast<size_t>(std::max<int64_t>(0, width)));
  if (width > (1 << 26))
    fail(Fault::Limit, "a format asks for a width of " + std::to_string(width));
  runtime.heap().touch(static_cast<size_t>(std::max<int64_t>(0, width)));
  return static_cast<int>(width);
}

}  // namespace mlxcel::text::jinja
