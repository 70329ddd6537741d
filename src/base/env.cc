#include "base/env.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace mlxcel::env {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

}  // namespace

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool present(const char* name) { return std::getenv(name) != nullptr; }

std::optional<int64_t> get_int(const char* name) {
  const auto value = get(name);
  if (!value) return std::nullopt;
  int64_t out = 0;
  const auto [end, ec] = std::from_chars(value->data(), value->data() + value->size(), out);
  if (ec != std::errc() || end != value->data() + value->size()) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("environment variable {}: expected an integer, got '{}'", name, *value));
  }
  return out;
}

std::optional<bool> get_bool(const char* name) {
  const auto value = get(name);
  if (!value) return std::nullopt;
  const std::string v = lower(*value);
  if (v == "1" || v == "true" || v == "on" || v == "yes") return true;
  if (v == "0" || v == "false" || v == "off" || v == "no") return false;
  throw Error(
      Code::InvalidArgument,
      fmt::format("environment variable {}: expected true or false, got '{}'", name, *value));
}

int64_t parse_size(std::string_view text) {
  const std::string v = lower(text);
  if (v == "none" || v == "0") return 0;
  const auto fail = [&] {
    return Error(Code::InvalidArgument,
                 fmt::format("expected a size such as 1073741824, 512MB or 1.5G, got '{}'", text));
  };
  size_t digits = 0;
  while (digits < v.size() && ((v[digits] >= '0' && v[digits] <= '9') || v[digits] == '.'))
    ++digits;
  if (digits == 0) throw fail();
  std::string unit = v.substr(digits);
  while (!unit.empty() && unit.front() == ' ') unit.erase(unit.begin());
  double scale = 1;
  if (unit == "k" || unit == "kb" || unit == "kib") {
    scale = 1024.0;
  } else if (unit == "m" || unit == "mb" || unit == "mib") {
    scale = 1024.0 * 1024;
  } else if (unit == "g" || unit == "gb" || unit == "gib") {
    scale = 1024.0 * 1024 * 1024;
  } else if (unit == "t" || unit == "tb" || unit == "tib") {
    scale = 1024.0 * 1024 * 1024 * 1024;
  } else if (!unit.empty() && unit != "b") {
    throw fail();
  }
  double number = 0;
  const auto [end, ec] = std::from_chars(v.data(), v.data() + digits, number);
  if (ec != std::errc() || end != v.data() + digits) throw fail();
  if (scale == 1 && number != std::floor(number)) throw fail();
  const double bytes = number * scale;
  if (bytes >= 9.2e18) throw fail();
  return static_cast<int64_t>(bytes);
}

}  // namespace mlxcel::env
