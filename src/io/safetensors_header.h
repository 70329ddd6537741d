// The JSON header of a SafeTensors file, parsed without a document tree: a large checkpoint names
// hundreds of thousands of tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace mlxcel::io {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  uint64_t begin = 0, end = 0;  // bytes, counted from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // as written
  std::vector<std::pair<std::string, std::string>> metadata;
  bool odd_metadata = false;  // "__metadata__" held something else than strings
};

/// Throws Corrupt or Unsupported (see SafetensorsFile::open); `source` names the file in messages.
/// Every entry's size in bytes equals end - begin and each dimension is in [0, 2^62].
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& source);

}  // namespace mlxcel::io
