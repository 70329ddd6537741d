// Filters on numbers.
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "text/jinja_builtins.h"

namespace mlxcel::text::jinja {

namespace {

Value absolute(Runtime&, const Value& subject, Args&) {
  if (subject.is_undefined()) fail_undefined(subject);
  if (!subject.is_number()) {
    fail(Fault::Type, "bad operand type for abs(): '" + type_name(subject) + "'");
  }
  if (subject.is(Type::Float)) return std::abs(subject.real());
  return subject.integer() < 0 ? negate(subject) : plus(subject);
}

/// int(float): truncates; false for what no integer can hold.
bool to_integer(double value, int64_t& out) {
  if (!(value > -0x1p63 && value < 0x1p63)) return false;
  out = static_cast<int64_t>(value);
  return true;
}

bool read_float(const Value& value, double& out) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) {
    out = value.real();
    return true;
  }
  return value.is_string() && parse_python_float(value.text(), out);
}

Value to_int(Runtime&, const Value& subject, Args& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value fallback = bound.given(0) ? bound[0] : Value(0);
  int64_t out = 0;
  if (subject.is_integral()) return subject.integer();
  if (subject.is_string() &&
      parse_python_int(subject.text(), static_cast<int>(bound.integer(1, 10)), out)) {
    return out;
  }
  double real = 0;
  if (!read_float(subject, real)) return fallback;
  if (to_integer(real, out)) return out;
  if (std::isfinite(real)) fail(Fault::Overflow, "the integer result does not fit 64 bits");
  if (std::isinf(real) && !subject.is_string()) {
    fail(Fault::Overflow, "cannot convert float infinity to integer");
  }
  return fallback;
}

Value to_float(Runtime&, const Value& subject, Args& args) {
  const Bound bound("float", args, {"default"});
  double out = 0;
  if (read_float(subject, out)) return out;
  return bound.given(0) ? bound[0] : Value(0.0);
}

/// Rounds to decimals exactly as the number is written, half to even (Python's round()).
double round_decimals(double value, int64_t digits) {
  if (!std::isfinite(value)) return value;
  if (digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    std::array<char, 700> text{};
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), value);
    return std::strtod(text.data(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  const double scaled = value / scale;
  double rounded = std::round(scaled);
  if (std::abs(scaled - rounded) == 0.5) rounded = 2.0 * std::round(scaled / 2.0);
  return rounded * scale;
}

Value round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t scale = 1;
  for (int64_t i = 0; i < -digits; ++i) scale *= 10;
  int64_t quotient = value / scale, remainder = value % scale;
  if (remainder < 0) {
    remainder += scale;
    --quotient;
  }
  if (remainder > scale / 2 || (remainder == scale / 2 && (quotient & 1) != 0)) ++quotient;
  int64_t result = 0;
  if (__builtin_mul_overflow(quotient, scale, &result)) {
    fail(Fault::Overflow, "the integer result does not fit 64 bits");
  }
  return result;
}

Value round_value(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  const int64_t digits = bound.integer(0, 0);
  const std::string_view method = bound.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    fail(Fault::Runtime, "method must be common, ceil or floor");
  }
  if (subject.is_undefined()) fail_undefined(subject);
  if (!subject.is_number()) {
    fail(Fault::Type, "type " + type_name(subject) + " doesn't define __round__ method");
  }
  if (method == "common") {
    if (subject.is_integral()) return round_integer(subject.integer(), digits);
    return round_decimals(subject.real(), digits);
  }
  const Value scale = binary(runtime, "**", Value(10), Value(digits));
  const double scaled = binary(runtime, "*", subject, scale).real();
  const double whole = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  int64_t integer = 0;
  if (!to_integer(whole, integer)) {
    fail(Fault::Overflow, "cannot convert the rounded number to an integer");
  }
  return binary(runtime, "/", Value(integer), scale);
}

Value file_size(Runtime&, const Value& subject, Args& args) {
  const Bound bound("filesizeformat", args, {"binary"});
  const bool binary_units = bound.flag(0, false);
  double bytes = 0;
  if (!read_float(subject, bytes)) {
    fail(Fault::Value, "could not convert to float: '" + type_name(subject) + "'");
  }
  if (bytes == 1) return make_string(nullptr, "1 Byte");
  const double base = binary_units ? 1024 : 1000;
  std::array<char, 400> text{};
  if (bytes < base) {
    std::snprintf(text.data(), text.size(), "%.0f Bytes", std::trunc(bytes));
    return make_string(nullptr, text.data());
  }
  static constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB",
                                                 "PiB", "EiB", "ZiB", "YiB"};
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < std::size(kDecimal) && bytes >= unit; ++i) unit *= base;
  std::snprintf(text.data(), text.size(), "%.1f ", base * bytes / unit);
  return make_string(nullptr, text.data() + std::string(binary_units ? kBinary[i] : kDecimal[i]));
}

constexpr NamedFilter kFilters[] = {
    {"abs", absolute}, {"filesizeformat", file_size}, {"float", to_float},
    {"int", to_int},   {"round", round_value},
};

}  // namespace

std::span<const NamedFilter> number_filters() { return kFilters; }

}  // namespace mlxcel::text::jinja
