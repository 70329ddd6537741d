// GGUF v2/v3 files (github.com/ggml-org/ggml, docs/gguf.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/matrix_source.h"

namespace mlxcel::io {

/// ggml tensor types that are read; numbers are the file format's.
enum class GgmlType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  I8 = 24,
  I16 = 25,
  I32 = 26,
  I64 = 27,
  F64 = 28,
  BF16 = 30
};

struct GgufTensor {
  std::string name;
  GgmlType type{};
  std::vector<int64_t> dims;  // row-major order: the file's reversed
  std::span<const std::byte> data;
};

class GgufFile {
 public:
  using Strings = std::vector<std::string_view>;  // into the mapping
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string_view, Strings,
                             std::vector<int64_t>, std::vector<double>>;
  /// Throws Corrupt / Unsupported with the file's name and what is wrong; sizes are checked before
  /// allocation.
  static std::shared_ptr<const GgufFile> open(const std::string& path);

  const std::string& path() const;
  const Value* find(std::string_view key) const;  // null when absent
  // Typed lookups; absent gives the fallback, a wrong type throws InvalidArgument naming the key.
  int64_t i64_or(std::string_view key, int64_t fallback) const;
  double f64_or(std::string_view key, double fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string str_or(std::string_view key, std::string_view fallback) const;
  const Strings* strings(std::string_view key) const;
  std::vector<std::string_view> keys() const;
  std::span<const GgufTensor> tensors() const;
  const std::shared_ptr<const MappedFile>& file() const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;

 public:
  ~GgufFile();
};

/// A quantized or dense GGUF matrix through the one affine form; `permute_heads` > 0 undoes the
/// interleaved row order of llama q/k projections.
std::shared_ptr<const MatrixSource> gguf_matrix(std::shared_ptr<const GgufFile> file,
                                                const GgufTensor& tensor,
                                                int64_t permute_heads = 0);

}  // namespace mlxcel::io
