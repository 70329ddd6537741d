// How a weight matrix is stored in a checkpoint, and how its rows are read. Quantized storage is
// not a DType: every integer format is affine groups, w[r][c] = scale[r][g] * code[r][c] +
// bias[r][g] with g = c / group.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace mlxcel {

struct WeightFormat {
  enum class Kind : uint8_t { Dense, Affine, Mxfp4, Mxfp8, Nvfp4, Fp8Block } kind = Kind::Dense;
  DType dense_type = DType::F32;  // Dense: F32, F16, BF16 or F8E4M3
  uint8_t bits = 0;               // Affine: 1..6 or 8
  uint16_t group = 0;             // Affine: 16, 32, 64 or 128 inputs share one scale and bias
  DType scale_type =
      DType::F32;  // Affine: F32, F16 or BF16, the narrowest type that holds the scales exactly
  bool symmetric =
      false;  // Affine: every bias is exactly -scale * 2^(bits-1) (Q4_0, Q5_0, Q8_0, Q3_K, Q6_K)
  /// Affine: bits of the integer that makes a group's scale together with the f16 super-scale of
  /// 256 inputs, and likewise its bias (K-quants: 4, 6 or 8; see SubScales). 0: scales stand alone.
  uint8_t sub_scale_bits = 0;
  bool operator==(const WeightFormat&) const = default;
  std::string str() const;  // "affine4 g64 bf16", "dense f16"
};

/// Where scales in two levels are put: scale = f16(super_scales) * sub_scales and bias =
/// f16(super_biases) * sub_biases, each product rounded to f32. With 4 bits integers are 0 to 15,
/// with 6 bits -32 to 63, with 8 bits any.
struct SubScales {
  uint16_t* super_scales = nullptr;  // [count][cols / 256]
  uint16_t* super_biases = nullptr;  // not written for symmetric formats
  int8_t* sub_scales = nullptr;      // [count][cols / group]
  int8_t* sub_biases = nullptr;      // not written for symmetric formats
};
inline constexpr int64_t kSuperGroup = 256;

/// A stored matrix [rows, cols] (outputs by inputs; for embeddings, tokens by hidden). Immutable,
/// thread-safe.
class MatrixSource {
 public:
  virtual ~MatrixSource() = default;
  virtual const WeightFormat& format() const = 0;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
  /// Full checkpoint name, for messages.
  virtual const std::string& name() const = 0;
  /// Bytes the matrix occupies in its file.
  virtual int64_t stored_bytes() const = 0;

  /// Affine formats: codes [count][cols] one byte each, scales and biases [count][cols / group].
  virtual void read_affine(int64_t row_begin, int64_t count, uint8_t* codes, float* scales,
                           float* biases) const = 0;
  /// Formats with sub_scale_bits: the scales of read_affine in two levels. Throws Internal for
  /// others.
  virtual void read_sub_scales(int64_t row_begin, int64_t count, const SubScales& out) const;
  /// Any format: the values as f32, [count][cols]. Affine: scale * code + bias, product and sum
  /// each rounded to f32.
  virtual void read_f32(int64_t row_begin, int64_t count, float* out) const = 0;
  /// Dense formats: the rows in `dense_type`, contiguous in the file when not null.
  virtual const void* dense_rows(int64_t row_begin) const = 0;
  /// Tells that [row_begin, row_begin + count) has been repacked: mapped pages may be dropped.
  virtual void release_rows(int64_t row_begin, int64_t count) const noexcept = 0;
};

}  // namespace mlxcel
