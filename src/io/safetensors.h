// SafeTensors files: an 8-byte little-endian header length, a JSON header of tensors, then their
// bytes (github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/dtype.h"

namespace mlxcel::io {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;          // at most Shape::kMaxRank, none negative
  std::span<const std::byte> data{};  // row-major, inside the mapping; may be unaligned
};

/// One mapped file. Immutable and thread-safe.
class SafetensorsFile {
 public:
  /// Longest header accepted, as in the reference implementation.
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

  /// Maps `path` and checks the whole header; tensor data is not read. Throws NotFound, Corrupt
  /// (truncation, header length, JSON, duplicate names, shapes, offsets that overlap, leave a hole
  /// or leave the file) or Unsupported (element types and ranks that tensors here cannot have),
  /// naming file and tensor.
  static std::shared_ptr<const SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  /// In the order of their data.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  /// The string members of "__metadata__"; anything else in it is ignored.
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;
  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace mlxcel::io
