// Matrices in block floating point: small floats with a shared scale for every group of inputs, as
// the OCP Microscaling specification (v1.0), NVFP4 and block-wise FP8 checkpoints define them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "io/matrix_sources.h"

namespace mlxcel::io {

/// The planes of one matrix in its file.
struct BlockPlanes {
  WeightFormat::Kind kind{};  // Mxfp4, Mxfp8, Nvfp4 or Fp8Block
  /// [rows][cols] E2M1 codes, two a byte with the first in the low half, or E4M3 bytes.
  std::span<const std::byte> codes{};
  /// [ceil(rows / rows_per_scale)][cols / group].
  std::span<const std::byte> scales{};
  DType scale_type{};          // U8 stands for E8M0; F8E4M3, F32, F16 or BF16
  int64_t rows_per_scale = 1;  // 128 for Fp8Block
  float factor = 1.0F;         // of the whole matrix
  std::shared_ptr<const MappedFile> scales_file{};
};

/// w = code * scale * factor, the products rounded to f32 in that order of scale * factor first.
/// Throws Corrupt when the planes do not have the size that info.rows and info.cols ask for.
std::shared_ptr<const MatrixSource> block_matrix(MatrixInfo info, BlockPlanes planes);

/// BitNet (arXiv:2402.17764): `codes` [rows / 4][cols] hold four rows each, row r in bits 2 * (r /
/// (rows / 4)) of its byte, as value + 1 in {0, 1, 2}; w = value * scale.
std::shared_ptr<const MatrixSource> ternary_matrix(MatrixInfo info,
                                                   std::span<const std::byte> codes, float scale);

/// The value of an E2M1 code (sign in bit 3).
float e2m1_to_f32(uint8_t code);
/// 2^(code - 127); 255 is NaN.
float e8m0_to_f32(uint8_t code);

}  // namespace mlxcel::io
