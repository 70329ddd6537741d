#include "base/json.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/utf8.h"

namespace mlxcel {
namespace {

constexpr size_t kLinearSearchLimit = 16;

// Keeps the last of members with equal keys, at the place of the first, as Python's json module
// does.
void drop_duplicates(Json::Object& members) {
  const auto earlier_of = [&](auto&& lookup) {
    size_t kept = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const size_t at = lookup(members[i].first, kept);
      if (at < kept) {
        members[at].second = std::move(members[i].second);
      } else {
        if (kept != i) members[kept] = std::move(members[i]);
        ++kept;
      }
    }
    members.resize(kept);
  };
  if (members.size() <= kLinearSearchLimit) {
    earlier_of([&](const std::string& key, size_t kept) {
      size_t at = 0;
      while (at < kept && members[at].first != key) ++at;
      return at;
    });
    return;
  }
  std::unordered_map<std::string, size_t> seen;
  seen.reserve(members.size());
  earlier_of(
      [&](const std::string& key, size_t kept) { return seen.emplace(key, kept).first->second; });
}

// Builds a Json from nlohmann's event stream; the parser itself does not recurse.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(Json()); }
  bool boolean(bool v) override { return add(Json(v)); }
  bool number_integer(int64_t v) override { return add(Json(v)); }
  bool number_unsigned(uint64_t v) override {
    return v <= static_cast<uint64_t>(INT64_MAX) ? add(Json(static_cast<int64_t>(v)))
                                                 : add(Json(static_cast<double>(v)));
  }
  bool number_float(double v, const std::string& source) override {
    if (!std::isfinite(v)) {
      error_ = fmt::format("number {} is out of range", source);
      return false;
    }
    return add(Json(v));
  }
  bool string(std::string& v) override { return add(Json(std::move(v))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool key(std::string& v) override {
    stack_.back().key = std::move(v);
    return true;
  }
  bool end_object() override {
    drop_duplicates(stack_.back().value.as_object());
    return close();
  }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    position_ = position;
    // Drops the library's own prefix "[json.exception.parse_error.101] parse error at line 1,
    // column 2: ".
    const std::string_view what = e.what();
    const size_t colon = what.find(": ");
    error_ = std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }
  size_t position() const { return position_; }
  bool too_deep() const { return too_deep_; }

 private:
  struct Level {
    Json value;
    std::string key;
  };

  bool add(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Level& top = stack_.back();
    if (top.value.is_array()) {
      top.value.as_array().push_back(std::move(value));
    } else {
      top.value.as_object().emplace_back(std::move(top.key), std::move(value));
    }
    return true;
  }
  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) {
      too_deep_ = true;
      error_ = fmt::format("nested deeper than {} levels", limits_.max_depth);
      return false;
    }
    stack_.push_back({std::move(value), {}});
    return true;
  }
  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(value));
  }

  JsonLimits limits_;
  Json root_;
  std::vector<Level> stack_;
  std::string error_;
  size_t position_ = 0;
  bool too_deep_ = false;
};

std::string where(std::string_view text, size_t position) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i + 1 < position && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

// Replaces the bare words NaN, Infinity and -Infinity outside of strings by null, which has no
// other meaning for a configuration value.
std::string without_nonfinite(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        out.append(text.substr(i, 2));
        i += 2;
        continue;
      }
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else {
      size_t skip = 0;
      for (const std::string_view word :
           {std::string_view("-Infinity"), std::string_view("Infinity"), std::string_view("NaN")}) {
        if (text.substr(i).starts_with(word)) {
          skip = word.size();
          break;
        }
      }
      if (skip > 0) {
        out += "null";
        i += skip;
        continue;
      }
    }
    out.push_back(c);
    ++i;
  }
  return out;
}

Error wrong_kind(std::string_view wanted, Json::Kind found) {
  return {Code::InvalidArgument,
          fmt::format("expected {}, found {}", wanted, Json::kind_name(found))};
}

void append_real(std::string& out, double v) {
  if (!std::isfinite(v)) {
    out += "null";
    return;
  }
  std::string text = fmt::format("{}", v);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  out += text;
}

void append_json(std::string& out, const Json& v, int indent, int level) {
  const auto newline = [&](int at) {
    if (indent >= 0) {
      out.push_back('\n');
      out.append(static_cast<size_t>(indent) * static_cast<size_t>(at), ' ');
    }
  };
  switch (v.kind()) {
    case Json::Kind::Null:
      out += "null";
      break;
    case Json::Kind::Bool:
      out += v.as_bool() ? "true" : "false";
      break;
    case Json::Kind::Int:
      out += fmt::format("{}", v.as_int());
      break;
    case Json::Kind::Real:
      append_real(out, v.as_double());
      break;
    case Json::Kind::String:
      append_json_string(out, v.as_string());
      break;
    case Json::Kind::Array: {
      out.push_back('[');
      bool first = true;
      for (const Json& item : v.as_array()) {
        if (!first) out.push_back(',');
        first = false;
        newline(level + 1);
        append_json(out, item, indent, level + 1);
      }
      if (!first) newline(level);
      out.push_back(']');
      break;
    }
    case Json::Kind::Object: {
      out.push_back('{');
      bool first = true;
      for (const auto& [key, item] : v.as_object()) {
        if (!first) out.push_back(',');
        first = false;
        newline(level + 1);
        append_json_string(out, key);
        out += indent >= 0 ? ": " : ":";
        append_json(out, item, indent, level + 1);
      }
      if (!first) newline(level);
      out.push_back('}');
      break;
    }
  }
}

}  // namespace

Json::Json(std::string value)
    : kind_(Kind::String), string_(std::make_unique<std::string>(std::move(value))) {}
Json::Json(Array value) : kind_(Kind::Array), array_(std::make_unique<Array>(std::move(value))) {}
Json::Json(Object value)
    : kind_(Kind::Object), object_(std::make_unique<Object>(std::move(value))) {}
Json::Json(const Json& other)
    : kind_(other.kind_),
      scalar_(other.scalar_),
      string_(other.string_ ? std::make_unique<std::string>(*other.string_) : nullptr),
      array_(other.array_ ? std::make_unique<Array>(*other.array_) : nullptr),
      object_(other.object_ ? std::make_unique<Object>(*other.object_) : nullptr) {}
Json& Json::operator=(const Json& other) {
  if (this != &other) *this = Json(other);
  return *this;
}
Json::~Json() = default;

Result<Json> Json::parse(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error(Code::ResourceExhausted,
                 fmt::format("JSON document of {} bytes exceeds the limit of {} bytes", text.size(),
                             limits.max_bytes));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Builder builder(limits);
  std::string cleaned;
  if (limits.allow_nonfinite && text.find_first_of("NI") != std::string_view::npos) {
    cleaned = without_nonfinite(text);
    text = cleaned;
  }
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return builder.take();
  const std::string place = builder.position() > 0 ? " at " + where(text, builder.position()) : "";
  return Error(builder.too_deep() ? Code::ResourceExhausted : Code::InvalidArgument,
               fmt::format("invalid JSON{}: {}", place, builder.error()));
}

std::string_view Json::kind_name(Kind kind) {
  switch (kind) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return "boolean";
    case Kind::Int:
      return "integer";
    case Kind::Real:
      return "number";
    case Kind::String:
      return "string";
    case Kind::Array:
      return "array";
    case Kind::Object:
      return "object";
  }
  return "null";
}

bool Json::as_bool() const {
  if (kind_ != Kind::Bool) throw wrong_kind("boolean", kind_);
  return scalar_.b;
}
int64_t Json::as_int() const {
  if (kind_ != Kind::Int) throw wrong_kind("integer", kind_);
  return scalar_.i;
}
double Json::as_double() const {
  if (kind_ == Kind::Int) return static_cast<double>(scalar_.i);
  if (kind_ != Kind::Real) throw wrong_kind("number", kind_);
  return scalar_.d;
}
const std::string& Json::as_string() const {
  if (kind_ != Kind::String) throw wrong_kind("string", kind_);
  return *string_;
}
const Json::Array& Json::as_array() const {
  if (kind_ != Kind::Array) throw wrong_kind("array", kind_);
  return *array_;
}
Json::Array& Json::as_array() {
  if (kind_ != Kind::Array) throw wrong_kind("array", kind_);
  return *array_;
}
const Json::Object& Json::as_object() const {
  if (kind_ != Kind::Object) throw wrong_kind("object", kind_);
  return *object_;
}
Json::Object& Json::as_object() {
  if (kind_ != Kind::Object) throw wrong_kind("object", kind_);
  return *object_;
}

const Json* Json::find(std::string_view key) const {
  if (kind_ != Kind::Object) return nullptr;
  for (const auto& [name, value] : *object_) {
    if (name == key) return &value;
  }
  return nullptr;
}
Json* Json::find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

Json& Json::set(std::string_view key, Json value) {
  if (kind_ == Kind::Null) *this = object();
  if (Json* present = find(key)) {
    *present = std::move(value);
    return *present;
  }
  return as_object().emplace_back(std::string(key), std::move(value)).second;
}

void Json::push_back(Json value) {
  if (kind_ == Kind::Null) *this = array();
  as_array().push_back(std::move(value));
}

size_t Json::size() const {
  if (kind_ == Kind::Array) return array_->size();
  return kind_ == Kind::Object ? object_->size() : 0;
}

std::string Json::dump(int indent) const {
  std::string out;
  append_json(out, *this, indent, 0);
  return out;
}

bool Json::operator==(const Json& other) const {
  if (is_number() && other.is_number() && kind_ != other.kind_)
    return as_double() == other.as_double();
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::Null:
      return true;
    case Kind::Bool:
      return scalar_.b == other.scalar_.b;
    case Kind::Int:
      return scalar_.i == other.scalar_.i;
    case Kind::Real:
      return scalar_.d == other.scalar_.d;
    case Kind::String:
      return *string_ == *other.string_;
    case Kind::Array:
      return *array_ == *other.array_;
    case Kind::Object: {
      if (object_->size() != other.object_->size()) return false;
      for (const auto& [key, value] : *object_) {
        const Json* twin = other.find(key);
        if (twin == nullptr || !(*twin == value)) return false;
      }
      return true;
    }
  }
  return false;
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string repaired;
  if (!utf8::is_valid(text)) {
    repaired = utf8::repair(text);
    text = repaired;
  }
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
          out.push_back(kDigits[c & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

}  // namespace mlxcel
