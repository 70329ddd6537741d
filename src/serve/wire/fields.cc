#include "serve/wire/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "serve/wire/api_error.h"

namespace mlxcel::serve::wire {

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

const Json* Fields::get(std::string_view key) const {
  const Json* value = object_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string_view Fields::first_of(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    if (has(key)) return key;
  }
  return *keys.begin();
}

void Fields::fail(std::string_view key, std::string_view message) {
  fail(bad_field(name(key), message));
}

void Fields::fail(Error error) {
  if (!error_) error_.emplace(std::move(error));
}

const Json* Fields::wanted(std::string_view key, bool right_kind(const Json&),
                           std::string_view expected) {
  if (error_) return nullptr;
  const Json* value = get(key);
  if (value == nullptr) return nullptr;
  if (right_kind(*value)) return value;
  fail(key, fmt::format("expected {}, found {}", expected, Json::kind_name(value->kind())));
  return nullptr;
}

void Fields::boolean(std::string_view key, bool& out) {
  const Json* v = wanted(key, [](const Json& j) { return j.is_bool(); }, "a boolean");
  if (v != nullptr) out = v->as_bool();
}

void Fields::integer64(std::string_view key, int64_t& out, int64_t min, int64_t max) {
  const Json* v = wanted(key, [](const Json& j) { return j.is_number(); }, "an integer");
  if (v == nullptr) return;
  int64_t value = 0;
  if (v->is_int()) {
    value = v->as_int();
  } else {
    const double real = v->as_double();
    // Doubles from 2^53 on no longer tell one whole number from the next.
    if (std::floor(real) != real || std::abs(real) > 9007199254740992.0) {
      return fail(key, fmt::format("expected an integer, found {}", real));
    }
    value = static_cast<int64_t>(real);
  }
  if (value < min || value > max) {
    return fail(key, fmt::format("{} is out of range: expected {} to {}", value, min, max));
  }
  out = value;
}

void Fields::integer(std::string_view key, int32_t& out, int64_t min, int64_t max) {
  int64_t value = out;
  integer64(key, value, std::max<int64_t>(min, INT32_MIN), std::min<int64_t>(max, INT32_MAX));
  out = static_cast<int32_t>(value);
}

void Fields::number(std::string_view key, float& out, double min, double max) {
  const Json* v = wanted(key, [](const Json& j) { return j.is_number(); }, "a number");
  if (v == nullptr) return;
  const double value = v->as_double();
  if (!std::isfinite(value) || value < min || value > max) {
    return fail(key, fmt::format("{} is out of range: expected {} to {}", value, min, max));
  }
  out = static_cast<float>(value);
}

void Fields::string(std::string_view key, std::string& out) {
  const Json* v = wanted(key, [](const Json& j) { return j.is_string(); }, "a string");
  if (v != nullptr) out = v->as_string();
}

void Fields::choice(std::string_view key, std::string& out,
                    std::initializer_list<std::string_view> values) {
  std::string value = out;
  string(key, value);
  if (!ok() || !has(key)) return;
  if (std::ranges::find(values, std::string_view(value)) == values.end()) {
    std::string list;
    for (const std::string_view v : values)
      list += fmt::format("{}'{}'", list.empty() ? "" : ", ", v);
    return fail(key, fmt::format("'{}' is unknown: expected one of {}",
                                 std::string_view(value).substr(0, 64), list));
  }
  out = std::move(value);
}

void Fields::strings(std::string_view key, std::vector<std::string>& out) {
  const Json* v = wanted(
      key, [](const Json& j) { return j.is_string() || j.is_array(); },
      "a string or a list of strings");
  if (v == nullptr) return;
  std::vector<std::string> values;
  if (v->is_string()) {
    values.push_back(v->as_string());
  } else {
    for (const Json& item : v->as_array()) {
      if (!item.is_string()) {
        return fail(key, fmt::format("expected a list of strings, found {} in it",
                                     Json::kind_name(item.kind())));
      }
      values.push_back(item.as_string());
    }
  }
  out = std::move(values);
}

const Json* Fields::object(std::string_view key) {
  return wanted(key, [](const Json& j) { return j.is_object(); }, "an object");
}

const Json* Fields::array(std::string_view key) {
  return wanted(key, [](const Json& j) { return j.is_array(); }, "a list");
}

Result<Json> parse_body(std::string_view body) {
  if (!utf8::is_valid(body)) {
    return Error(Code::InvalidArgument, "the request body is not valid UTF-8");
  }
  Result<Json> json = Json::parse(body);
  if (!json.ok()) {  // also beyond the limits: the client can do something about it
    return Error(Code::InvalidArgument,
                 fmt::format("the request body is not valid JSON: {}", json.error().message()));
  }
  if (!json.value().is_object()) {
    return Error(Code::InvalidArgument,
                 fmt::format("the request body must be a JSON object, found {}",
                             Json::kind_name(json.value().kind())));
  }
  return json;
}

}  // namespace mlxcel::serve::wire
