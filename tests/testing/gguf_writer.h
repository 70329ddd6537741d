// Writes small GGUF files for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/gguf.h"

namespace mlxcel::testing {

/// Metadata keeps the order of the calls. Nothing is checked, so that tests can lie.
class GgufWriter {
 public:
  GgufWriter& u32(std::string_view key, uint32_t value);
  GgufWriter& u16(std::string_view key, uint16_t value);
  GgufWriter& i32(std::string_view key, int32_t value);
  GgufWriter& u64(std::string_view key, uint64_t value);
  GgufWriter& f32(std::string_view key, float value);
  GgufWriter& flag(std::string_view key, bool value);
  GgufWriter& str(std::string_view key, std::string_view value);
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& f32s(std::string_view key, std::span<const float> values);
  GgufWriter& i32s(std::string_view key, std::span<const int32_t> values);
  /// Any value: its type number and its bytes.
  GgufWriter& raw(std::string_view key, uint32_t type, std::string_view bytes);

  /// `dims` in row-major order; `bytes` as the format has them.
  GgufWriter& add(std::string name, io::GgmlType type, std::vector<int64_t> dims,
                  std::string bytes);
  /// An F32 tensor.
  GgufWriter& add(std::string name, std::vector<int64_t> dims, std::span<const float> values);

  GgufWriter& version(uint32_t version);      // default 3
  GgufWriter& alignment(uint32_t alignment);  // default 32; other values are written as metadata
  /// The whole file.
  std::string bytes() const;
  void write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    uint32_t type;
    std::vector<int64_t> dims;
    std::string bytes;
  };
  std::string values_;
  uint64_t num_values_ = 0;
  std::vector<Entry> entries_;
  uint32_t version_ = 3, alignment_ = 32;
};

}  // namespace mlxcel::testing
