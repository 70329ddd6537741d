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

/// "Q4_K", "F32", ...
std::string_view ggml_type_name(GgmlType type);

struct GgufTensor {
  std::string name;
  GgmlType type{};
  std::vector<int64_t> dims;  // row-major order: the file's reversed
  std::span<const std::byte> data{};
  std::shared_ptr<const MappedFile> file{};  // the part of a split file that holds the data
};

/// An array of numbers or booleans as it lies in the file, unaligned.
struct GgufNumbers {
  enum class Type : uint8_t { U8, I8, U16, I16, U32, I32, U64, I64, F32, F64, Bool } type{};
  uint64_t count = 0;
  std::span<const std::byte> bytes{};
  bool integral() const { return type != Type::F32 && type != Type::F64; }
  /// Element `i` < count; reals are truncated, values beyond int64 saturate.
  int64_t i64(uint64_t i) const;
  double f64(uint64_t i) const;
};

class GgufFile {
 public:
  using Strings = std::vector<std::string_view>;  // into the mapping
  using Value =
      std::variant<bool, int64_t, uint64_t, double, std::string_view, Strings, GgufNumbers>;
  /// Opens a file, or all parts of a split model when `path` is its first part
  /// ("...-00001-of-0000N.gguf"). Throws NotFound, Corrupt or Unsupported with the file's name and
  /// what is wrong; sizes are checked before allocation. Tensor data is not read.
  static std::shared_ptr<const GgufFile> open(const std::string& path);

  const std::string& path() const;
  const Value* find(std::string_view key) const;  // null when absent
  // Typed lookups; absent gives the fallback, a wrong type throws InvalidArgument naming the key.
  int64_t i64_or(std::string_view key, int64_t fallback) const;
  double f64_or(std::string_view key, double fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string str_or(std::string_view key, std::string_view fallback) const;
  const Strings* strings(std::string_view key) const;     // null when absent
  std::vector<float> f32s(std::string_view key) const;    // numbers as f32; empty when absent
  std::vector<int32_t> i32s(std::string_view key) const;  // as above; throws out of range
  std::vector<std::string_view> keys() const;             // in file order
  std::span<const GgufTensor> tensors() const;            // in file order, parts one by one
  const GgufTensor* tensor(std::string_view name) const;  // null when absent
  const std::shared_ptr<const MappedFile>& file() const;  // the first part
  /// Bytes of tensor data, all parts.
  int64_t tensor_bytes() const;

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;

 public:
  ~GgufFile();
};

/// A quantized or dense GGUF matrix [rows, cols] through the one affine form (leading dimensions
/// beyond two count as rows). `permute_heads` > 0 undoes the interleaved row order of llama q/k
/// projections: inside each of that many equal blocks of rows, row 2j + s of the file is row
/// s * half + j of the matrix. Throws Unsupported for integer types, Corrupt for rows that the
/// heads do not divide.
std::shared_ptr<const MatrixSource> gguf_matrix(const std::shared_ptr<const GgufFile>& file,
                                                const GgufTensor& tensor,
                                                int64_t permute_heads = 0);

}  // namespace mlxcel::io
