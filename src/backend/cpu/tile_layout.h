// Layout CpuTile16: sixteen outputs by all inputs form a tile, so that each vector lane is one
// output and a sum over inputs never crosses lanes. Tiles follow one another; the last one is
// padded with zero codes and scales.
//
// Affine tiles are blocks of max(group, 32) inputs. A block holds, in this order:
//   low plane   dwords of 32/L inputs: lane r of dword d has the low L bits of input d*32/L + i at
//               bit L*i. 16 lanes a dword.
//   high plane  dwords of 32/H inputs, which cover L/H low dwords: input i of the b-th of them has
//               its high H bits at bit L*i + H*b.                                 (bits 3, 5, 6)
//   scales      16 of scale_type for each group of the block
//   biases      likewise, unless the format is symmetric
// With scales in two levels a block has 256 inputs and ends in
//   super-scales, super-biases   16 f16 each
//   sub-scales  for each group 16 int8 scales, then 16 int8 biases; of 4 bits both in one byte, the
//               scale low
// where symmetric formats have no biases.
// with (bits, L, H) = (1,1,0) (2,2,0) (3,2,1) (4,4,0) (5,4,1) (6,4,2) (8,8,0). So memory equals
// file size but for padding. Dense tiles hold 16 outputs an input in the stored type; their
// reduction group is 256 inputs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/matrix_source.h"

namespace mlxcel::cpu {

inline constexpr int kTile = 16;
inline constexpr int64_t kDenseGroup = 256;

struct TileLayout {
  int bits = 0, low_bits = 0, high_bits = 0;  // 0 for dense
  bool affine = false, symmetric = false;
  DType scale_type = DType::F32;
  int sub_scale_bits = 0;  // 0: scales of scale_type
  int64_t cols = 0, group = 0;
  int64_t block_cols = 0;    // inputs in one block
  int64_t blocks = 0;        // in one tile
  int64_t block_groups = 0;  // groups in one block
  int64_t groups = 0;        // that hold inputs
  int64_t high_offset = 0;   // bytes from the start of a block
  int64_t scale_offset = 0, bias_offset = 0;
  int64_t scale_stride = 0;                // bytes from group to group, without sub_scale_bits
  int64_t sub_offset = 0, sub_stride = 0;  // integers of a group, with sub_scale_bits
  int64_t block_bytes = 0, tile_bytes = 0;

  TileLayout() = default;
  TileLayout(const WeightFormat& format, int64_t num_cols) : cols(num_cols) {
    affine = format.kind == WeightFormat::Kind::Affine;
    if (!affine) {
      const int64_t size = size_of(format.dense_type);
      group = block_cols = kDenseGroup;
      blocks = groups = (cols + kDenseGroup - 1) / kDenseGroup;
      block_groups = 1;
      block_bytes = kDenseGroup * kTile * size;
      tile_bytes = cols * kTile * size;
      return;
    }
    bits = format.bits;
    low_bits = bits == 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
    high_bits = bits - low_bits;
    symmetric = format.symmetric;
    scale_type = format.scale_type;
    group = format.group;
    sub_scale_bits = format.sub_scale_bits;
    block_cols = sub_scale_bits > 0 ? kSuperGroup : std::max<int64_t>(group, 32);
    blocks = (cols + block_cols - 1) / block_cols;
    block_groups = block_cols / group;
    groups = (cols + group - 1) / group;
    high_offset = block_cols * low_bits * kTile / 8;
    scale_offset = high_offset + block_cols * high_bits * kTile / 8;
    scale_stride = kTile * size_of(scale_type);
    const int64_t scale_bytes = sub_scale_bits > 0 ? kTile * 2 : block_groups * scale_stride;
    bias_offset = scale_offset + scale_bytes;
    sub_offset = block_bytes = bias_offset + (symmetric ? 0 : scale_bytes);
    if (sub_scale_bits > 0) {
      sub_stride = symmetric || sub_scale_bits == 4 ? kTile : 2 * kTile;
      block_bytes += block_groups * sub_stride;
    }
    tile_bytes = blocks * block_bytes;
  }
  static int64_t tiles(int64_t rows) { return (rows + kTile - 1) / kTile; }
  /// Inputs in one dword of the low plane.
  int64_t dword_cols() const { return 32 / low_bits; }
};

/// Which codes come with scales in two levels: those of the K-quants.
constexpr bool two_levels_possible(int bits, bool symmetric) {
  return symmetric ? bits == 3 || bits == 6 : bits == 2 || bits == 4 || bits == 5;
}

/// Low-plane codes are used where they lie in a dword, as code * 2^shift, and the inverse power is
/// put into x. The exponent for input i of a dword: one plane has only its top code shifted down,
/// so that no code reaches the sign bit; two planes, and single bits, have their upper half
/// shifted.
constexpr int code_shift(int low_bits, int high_bits, int i) {
  const int per_dword = 32 / low_bits;
  if (low_bits == 1) return i % 16;
  if (high_bits == 0) return i == per_dword - 1 ? 0 : low_bits * i;
  return low_bits * (i % (per_dword / 2));
}

}  // namespace mlxcel::cpu
