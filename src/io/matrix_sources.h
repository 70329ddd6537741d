// MatrixSource implementations over mapped bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "tensor/matrix_source.h"

namespace mlxcel::io {

/// The order of rows in the file: the matrix's own, or llama's interleaved rotary pairs (`heads` >
/// 0), where row 2j + s of a head's block is row s * half + j of the matrix.
struct RowOrder {
  int64_t rows = 0, heads = 0;
  /// The file's row that holds row `row` of the matrix.
  int64_t stored(int64_t row) const {
    if (heads == 0) return row;
    const int64_t dim = rows / heads, half = dim / 2, in_head = row % dim;
    return row - in_head + 2 * (in_head % half) + in_head / half;
  }
};

struct GgmlTraits;

/// What all sources know of themselves.
struct MatrixInfo {
  std::string name;
  int64_t rows = 0, cols = 0;
  RowOrder order{};
  std::shared_ptr<const MappedFile> file{};  // kept alive
};

/// Dense rows [rows, cols] of `type` (F32, F16, BF16 or F8E4M3) in `data`.
/// Throws Unsupported for other element types, Corrupt when heads do not divide the rows.
std::shared_ptr<const MatrixSource> dense_matrix(MatrixInfo info, DType type,
                                                 std::span<const std::byte> data);
/// Stands in for a matrix that the checkpoint lacks: dense f32 zeros, without memory of its own.
std::shared_ptr<const MatrixSource> zero_matrix(MatrixInfo info);
/// Rows of a GGUF block format (see gguf_blocks.h).
std::shared_ptr<const MatrixSource> gguf_block_matrix(MatrixInfo info, const GgmlTraits& traits,
                                                      std::span<const std::byte> data);
/// MLX affine groups: `codes` [rows, cols * bits / 32] u32, `scales` and `biases` [rows, cols /
/// group].
struct MlxPlanes {
  uint8_t bits = 0;
  uint16_t group = 0;
  DType scale_type{}, bias_type{};  // F32, F16 or BF16
  std::span<const std::byte> codes{}, scales{}, biases{};
  std::shared_ptr<const MappedFile> scales_file{}, biases_file{};
};
std::shared_ptr<const MatrixSource> mlx_matrix(MatrixInfo info, MlxPlanes planes);

/// Unpacks `count` codes of `bits` (1..6 or 8; count * bits a multiple of 32) from a little-endian
/// bit stream, least significant bit first, into one byte each.
void unpack_bits(int bits, const std::byte* in, int64_t count, uint8_t* out);

}  // namespace mlxcel::io
