// Reading the header of one GGUF file: metadata and tensor table.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "io/gguf.h"

namespace mlxcel::io {

struct GgufPart {
  std::vector<std::pair<std::string_view, GgufFile::Value>> values;  // in file order, keys unique
  std::vector<GgufTensor> tensors;                                   // names unique
};

/// Throws Corrupt or Unsupported naming the file and what is wrong. Strings and data are views into
/// the mapping.
GgufPart parse_gguf(const std::shared_ptr<const MappedFile>& file);

}  // namespace mlxcel::io
