#include "io/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "base/file.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;

// An integer, or a real without a fraction that an int64 holds.
bool to_integer(const Json& value, int64_t& out) {
  if (value.is_int()) {
    out = value.as_int();
    return true;
  }
  if (!value.is_number()) return false;
  const double d = value.as_double();
  if (d != std::floor(d) || d < -0x1p62 || d > 0x1p62) return false;
  out = static_cast<int64_t>(d);
  return true;
}

}  // namespace

struct Config::Node {
  Json value;
  std::string source;  // file, for messages
  std::string prefix;  // "text_config." inside that object
  mutable std::mutex mutex;
  mutable std::set<std::string, std::less<>> read;  // top-level keys asked for; guarded by mutex

  Node(Json v, std::string s, std::string p)
      : value(std::move(v)), source(std::move(s)), prefix(std::move(p)) {}

  // The value at `key`, or null when it is absent or JSON null.
  const Json* find(std::string_view key) const {
    const Json* at = &value;
    std::string_view rest = key;
    const Json* whole = value.find(key);
    const std::string_view top = whole != nullptr ? key : key.substr(0, key.find('.'));
    {
      const std::lock_guard lock(mutex);
      if (!read.contains(top)) read.emplace(top);
    }
    if (whole != nullptr) return whole->is_null() ? nullptr : whole;
    while (at != nullptr && !rest.empty()) {
      const size_t dot = rest.find('.');
      at = at->find(rest.substr(0, dot));
      rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    }
    return at == nullptr || at->is_null() ? nullptr : at;
  }

  const Json& require(std::string_view key) const {
    const Json* found = find(key);
    if (found == nullptr) {
      throw Error(Code::InvalidArgument, fmt::format("{}: the key {} is missing", source,
                                                     quote(prefix + std::string(key))));
    }
    return *found;
  }

  Error wrong(std::string_view key, std::string_view wanted, const Json& found) const {
    const bool scalar = !found.is_array() && !found.is_object();
    return {Code::InvalidArgument,
            fmt::format("{}: {} must be {}, but it is {}", source, quote(prefix + std::string(key)),
                        wanted,
                        scalar ? quote(found.is_string() ? found.as_string() : found.dump())
                               : std::string(Json::kind_name(found.kind())))};
  }

  int64_t integer(std::string_view key, const Json& found) const {
    int64_t out = 0;
    if (!to_integer(found, out)) throw wrong(key, "an integer", found);
    return out;
  }
  double real(std::string_view key, const Json& found) const {
    if (!found.is_number()) throw wrong(key, "a number", found);
    return found.as_double();
  }
};

Config::Config() : Config(from_json(Json::object(), "(empty)")) {}

Config Config::load(const std::string& path) {
  std::string text = read_file(path, kMaxConfigBytes);
  std::string_view view = text;
  if (view.starts_with("\xEF\xBB\xBF")) view.remove_prefix(3);
  auto parsed = Json::parse(view, {.max_bytes = kMaxConfigBytes, .allow_nonfinite = true});
  if (!parsed) {
    throw Error(parsed.error().code(),
                fmt::format("{} is not valid JSON: {}", path, parsed.error().message()));
  }
  return from_json(std::move(parsed).value(), path);
}

Config Config::from_json(Json value, std::string source) {
  if (!value.is_object()) {
    throw Error(Code::InvalidArgument, fmt::format("{}: expected a JSON object, found {}", source,
                                                   Json::kind_name(value.kind())));
  }
  Config c{Adopt{}};
  c.node_ = std::make_shared<const Node>(std::move(value), std::move(source), std::string());
  return c;
}

bool Config::has(std::string_view key) const { return node_->find(key) != nullptr; }

int64_t Config::i64(std::string_view key) const { return node_->integer(key, node_->require(key)); }

int64_t Config::i64_or(std::string_view key, int64_t fallback) const {
  const Json* found = node_->find(key);
  return found == nullptr ? fallback : node_->integer(key, *found);
}

double Config::f64(std::string_view key) const { return node_->real(key, node_->require(key)); }

double Config::f64_or(std::string_view key, double fallback) const {
  const Json* found = node_->find(key);
  return found == nullptr ? fallback : node_->real(key, *found);
}

float Config::f32_or(std::string_view key, float fallback) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return fallback;
  const double value = node_->real(key, *found);
  if (std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    throw node_->wrong(key, "a number in the range of 32-bit floats", *found);
  }
  return static_cast<float>(value);
}

bool Config::flag_or(std::string_view key, bool fallback) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return fallback;
  if (!found->is_bool()) throw node_->wrong(key, "true or false", *found);
  return found->as_bool();
}

std::string Config::str(std::string_view key) const {
  const Json& found = node_->require(key);
  if (!found.is_string()) throw node_->wrong(key, "a string", found);
  return found.as_string();
}

std::string Config::str_or(std::string_view key, std::string_view fallback) const {
  return node_->find(key) == nullptr ? std::string(fallback) : str(key);
}

std::vector<int64_t> Config::i64s(std::string_view key) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return {};
  if (!found->is_array()) return {node_->integer(key, *found)};
  std::vector<int64_t> out;
  out.reserve(found->size());
  for (const Json& item : found->as_array()) {
    int64_t value = 0;
    if (!to_integer(item, value)) throw node_->wrong(key, "an integer or a list of them", item);
    out.push_back(value);
  }
  return out;
}

int64_t Config::size(std::string_view key, int64_t low, int64_t high) const {
  const int64_t value = i64(key);
  if (value < low || value > high) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} is {}, outside [{}, {}]", node_->source,
                            quote(node_->prefix + std::string(key)), value, low, high));
  }
  return value;
}

int64_t Config::size_or(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  return has(key) ? size(key, low, high) : fallback;
}

void Config::expect(std::string_view key, std::string_view only) const {
  const Json* found = node_->find(key);
  if (found == nullptr) return;
  const std::string value = found->is_string() ? found->as_string() : found->dump();
  if (value != only) {
    throw Error(Code::Unsupported,
                fmt::format("{}: {} is {}; only {} is supported", node_->source,
                            quote(node_->prefix + std::string(key)), quote(value), quote(only)));
  }
}

Config Config::at(std::string_view key) const {
  const Json& found = node_->require(key);
  if (!found.is_object()) throw node_->wrong(key, "an object", found);
  Config c{Adopt{}};
  c.node_ =
      std::make_shared<const Node>(found, node_->source, node_->prefix + std::string(key) + ".");
  return c;
}

Config Config::at_or_self(std::string_view key) const { return has(key) ? at(key) : *this; }

const Json& Config::json() const { return node_->value; }
const std::string& Config::source() const { return node_->source; }

std::vector<std::string> Config::unread() const {
  std::vector<std::string> out;
  const std::lock_guard lock(node_->mutex);
  for (const auto& [key, value] : node_->value.as_object()) {
    if (!node_->read.contains(key)) out.push_back(key);
  }
  return out;
}

}  // namespace mlxcel::io
