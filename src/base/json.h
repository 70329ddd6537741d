// A JSON value that keeps the order of object keys and the distinction of integers and reals. Used
// for configurations, requests and as the data of chat templates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace mlxcel {

struct JsonLimits {
  int max_depth = 128;
  uint64_t max_bytes = uint64_t{256} << 20;
  bool allow_nonfinite = false;  // NaN, Infinity and -Infinity, as Python writes them
};

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Int, Real, String, Array, Object };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in source order; keys are unique, the last one wins

  Json() {}  // not defaulted: clang would need the members before the end of the class
  Json(std::nullptr_t) {}
  Json(bool value) : kind_(Kind::Bool) { scalar_.b = value; }
  Json(int value) : Json(static_cast<int64_t>(value)) {}
  Json(int64_t value) : kind_(Kind::Int) { scalar_.i = value; }
  Json(double value) : kind_(Kind::Real) { scalar_.d = value; }
  Json(const char* value) : Json(std::string(value)) {}
  Json(std::string_view value) : Json(std::string(value)) {}
  Json(std::string value);
  Json(Array value);
  Json(Object value);
  Json(const Json&);
  Json(Json&&) noexcept = default;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept = default;
  ~Json();

  /// Parses one document. InvalidArgument with line and column, or ResourceExhausted beyond the
  /// limits. Integers beyond 64 bits become reals.
  static Result<Json> parse(std::string_view text, const JsonLimits& limits = {});
  static Json array(Array value = {}) { return Json(std::move(value)); }
  static Json object(Object value = {}) { return Json(std::move(value)); }

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::Null; }
  bool is_bool() const { return kind_ == Kind::Bool; }
  bool is_int() const { return kind_ == Kind::Int; }
  bool is_number() const { return kind_ == Kind::Int || kind_ == Kind::Real; }
  bool is_string() const { return kind_ == Kind::String; }
  bool is_array() const { return kind_ == Kind::Array; }
  bool is_object() const { return kind_ == Kind::Object; }
  /// "null", "boolean", "integer", "number", "string", "array" or "object", for messages.
  static std::string_view kind_name(Kind kind);

  // Accessors throw InvalidArgument naming both kinds when the value is of another kind.
  bool as_bool() const;
  int64_t as_int() const;    // Int only
  double as_double() const;  // Int or Real
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  /// The member of an object, or null when this is no object or has no such key. Linear in the
  /// keys.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key);
  /// Sets or appends a member; this must be an object (a null becomes one).
  Json& set(std::string_view key, Json value);
  void push_back(Json value);
  size_t size() const;  // of an array or object, else 0

  /// Serializes. indent < 0: one line without spaces. Non-ASCII text stays UTF-8; invalid UTF-8
  /// becomes U+FFFD. Non-finite reals are written as null.
  std::string dump(int indent = -1) const;
  bool operator==(const Json& other) const;

 private:
  Kind kind_ = Kind::Null;
  union Scalar {
    bool b;
    int64_t i;
    double d;
  } scalar_{};
  std::unique_ptr<std::string> string_;
  std::unique_ptr<Array> array_;
  std::unique_ptr<Object> object_;
};

/// Appends `text` as a quoted JSON string.
void append_json_string(std::string& out, std::string_view text);

}  // namespace mlxcel
