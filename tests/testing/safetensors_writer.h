// Writes small SafeTensors files and model directories for tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace mlxcel::testing {

class SafetensorsWriter {
 public:
  /// Adds `bytes` as they are; their number is not checked, so that tests can lie.
  SafetensorsWriter& add(std::string name, DType dtype, std::vector<int64_t> dims,
                         std::string bytes);
  /// Adds values converted to `dtype` (F32, F16, BF16 or F8E4M3).
  SafetensorsWriter& add(std::string name, DType dtype, std::vector<int64_t> dims,
                         std::span<const float> values);
  SafetensorsWriter& add_u32(std::string name, std::vector<int64_t> dims,
                             std::span<const uint32_t> values);
  /// JSON text put behind "__metadata__".
  SafetensorsWriter& metadata(std::string json);
  /// The whole file.
  std::string bytes() const;
  void write(const std::string& path) const;

  /// A file of this header text and data.
  static std::string raw(const std::string& header, const std::string& data = {});

 private:
  struct Entry {
    std::string name;
    DType dtype;
    std::vector<int64_t> dims;
    std::string bytes;
  };
  std::vector<Entry> entries_;
  std::string metadata_;
};

}  // namespace mlxcel::testing
