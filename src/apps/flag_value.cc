// Numbers, switches and sizes out of the text of a flag.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/serve_flags.h"
#include "base/env.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

constexpr double kAny = 1e30;  // no bound

}  // namespace

Error FlagValue::refused(std::string_view expected) const {
  return {Code::InvalidArgument, fmt::format("{}: '{}' is not {}", name, text, expected)};
}

int64_t FlagValue::integer(int64_t low, int64_t high) const {
  int64_t value = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [at, problem] = std::from_chars(begin, end, value);
  if (text.empty() || problem != std::errc() || at != end || value < low || value > high) {
    throw refused(fmt::format("a whole number from {} to {}", low, high));
  }
  return value;
}

float FlagValue::number(double low, double high) const {
  double value = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [at, problem] = std::from_chars(begin, end, value);
  if (text.empty() || problem != std::errc() || at != end || !std::isfinite(value) || value < low ||
      value > high) {
    throw refused(std::abs(low) >= kAny || high >= kAny
                      ? fmt::format("a number{}", low == 0 ? " that is not negative" : "")
                      : fmt::format("a number from {} to {}", low, high));
  }
  return static_cast<float>(value);
}

bool FlagValue::boolean() const {
  std::string low = text;
  std::transform(low.begin(), low.end(), low.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const char* yes : {"1", "true", "on", "yes", "enabled"}) {
    if (low == yes) return true;
  }
  for (const char* no : {"0", "false", "off", "no", "disabled"}) {
    if (low == no) return false;
  }
  throw refused("true or false");
}

int64_t FlagValue::bytes() const {
  try {
    return env::parse_size(text);
  } catch (const Error&) {
    throw refused("a size in bytes, like 1073741824 or 1GB");
  }
}

const std::string& FlagValue::one_of(std::initializer_list<std::string_view> values) const {
  for (const std::string_view value : values) {
    if (text == value) return text;
  }
  std::string list;
  for (const std::string_view value : values)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", value);
  throw refused("one of " + list);
}

}  // namespace mlxcel::apps
