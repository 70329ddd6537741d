// Read-only typed access to a JSON document. Errors name the file and the full path of the key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mlxcel::io {

class Config {
 public:
  Config();  // an empty object
  /// Reads leniently: a byte order mark is skipped; NaN and Infinity, which Python writes, count as
  /// absent. Throws NotFound or InvalidArgument naming `path`, ResourceExhausted above 64 MiB.
  static Config load(const std::string& path);
  static Config from_json(Json value, std::string source);

  bool has(std::string_view key) const;  // present and not null; dots descend: "quantization.bits"
  // Each throws InvalidArgument naming the key when absent (plain forms) or of another type (all
  // forms).
  int64_t i64(std::string_view key) const;  // accepts 4096.0
  int64_t i64_or(std::string_view key, int64_t fallback) const;
  double f64(std::string_view key) const;
  double f64_or(std::string_view key, double fallback) const;
  float f32_or(std::string_view key, float fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string str(std::string_view key) const;
  std::string str_or(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> i64s(
      std::string_view key) const;  // an integer or a list of them; empty when absent
  /// A size read as i64 that must lie in [low, high]; throws InvalidArgument naming key, value and
  /// range.
  int64_t size(std::string_view key, int64_t low = 1, int64_t high = int64_t{1} << 31) const;
  int64_t size_or(std::string_view key, int64_t fallback, int64_t low = 1,
                  int64_t high = int64_t{1} << 31) const;
  /// Throws Unsupported for any value but `only` (a string, or JSON text as "false"); absent is
  /// accepted.
  void expect(std::string_view key, std::string_view only) const;
  Config at(std::string_view key) const;          // sub-object; throws when absent
  Config at_or_self(std::string_view key) const;  // sub-object if present

  const Json& json() const;
  const std::string& source() const;
  /// Top-level keys that no accessor of this object (or a copy) has asked for, in source order.
  std::vector<std::string> unread() const;

 private:
  struct Node;
  struct Adopt {};
  explicit Config(Adopt) {}
  std::shared_ptr<const Node> node_;
};

}  // namespace mlxcel::io
