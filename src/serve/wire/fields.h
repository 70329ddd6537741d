// Reads the members of a request object strictly: a wrong type or a value out of range is an error
// that names the field; null is the same as absent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace mlxcel::serve::wire {

/// Each reader leaves `out` alone when the member is absent or null. The first error is kept, and
/// nothing is read after it.
class Fields {
 public:
  /// `path` is put before the names in messages ("stream_options."). `object` outlives this.
  explicit Fields(const Json& object, std::string path = {});

  /// The member, or null when absent or null.
  const Json* get(std::string_view key) const;
  bool has(std::string_view key) const { return get(key) != nullptr; }
  /// The first of several spellings that is there.
  std::string_view first_of(std::initializer_list<std::string_view> keys) const;

  void boolean(std::string_view key, bool& out);
  /// Whole numbers, also written as 5.0.
  void integer(std::string_view key, int32_t& out, int64_t min = INT32_MIN,
               int64_t max = INT32_MAX);
  void integer64(std::string_view key, int64_t& out, int64_t min = INT64_MIN,
                 int64_t max = INT64_MAX);
  void number(std::string_view key, float& out, double min, double max);
  void string(std::string_view key, std::string& out);
  /// One of `values`.
  void choice(std::string_view key, std::string& out,
              std::initializer_list<std::string_view> values);
  /// A string or a list of strings.
  void strings(std::string_view key, std::vector<std::string>& out);
  /// The member when it is an object; null when absent.
  const Json* object(std::string_view key);
  const Json* array(std::string_view key);

  std::string name(std::string_view key) const { return path_ + std::string(key); }
  void fail(std::string_view key, std::string_view message);
  void fail(Error error);
  bool ok() const { return !error_; }
  const Error& error() const { return *error_; }

 private:
  const Json* wanted(std::string_view key, bool right_kind(const Json&), std::string_view expected);

  const Json& object_;
  std::string path_;
  std::optional<Error> error_;
};

/// A request body as an object. InvalidArgument for anything else; nesting is limited to 128.
Result<Json> parse_body(std::string_view body);

}  // namespace mlxcel::serve::wire
