// What all cursors of one checkpoint share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "io/gguf_blocks.h"
#include "io/quant_config.h"
#include "io/weights.h"

namespace mlxcel::io {

/// One tensor of a checkpoint as it lies in its file.
struct StoredTensor {
  std::string stored_name;  // in the file; quantization overrides go by it
  std::vector<int64_t> dims;
  std::span<const std::byte> data{};
  std::shared_ptr<const MappedFile> file{};
  DType dtype = DType::F32;            // when not in blocks
  const GgmlTraits* blocks = nullptr;  // quantized GGUF types
  int64_t permute_heads = 0;           // see RowOrder
  bool used = false;
};

struct Weights::Root {
  std::string source;  // directory or file, for messages
  std::map<std::string, StoredTensor, std::less<>> tensors;
  QuantConfig quantization;
  ParallelGroup tp;
  Device device{};
  int64_t total_bytes = 0;

  mutable std::mutex mutex;  // guards `used` of the tensors and the two below
  std::set<std::string> missing;
  int64_t stand_in_bytes = 0;  // of zeros returned for missing tensors

  /// Adds a tensor under `name`; throws Corrupt when another tensor has that name already.
  void add(const std::string& name, StoredTensor tensor);
  /// Null when absent; marks the tensor used.
  const StoredTensor* use(const std::string& name);
  /// Records a missing tensor; throws Corrupt with all missing names once their stand-ins would
  /// take more than 1 GiB.
  void record_missing(const std::string& name, int64_t elements);
};

/// `name` after the rules, each applied once in order; nothing when one of them drops it.
std::optional<std::string> renamed(std::string name, std::span<const Rename> rules);

}  // namespace mlxcel::io
