// The layout CudaFragment. A matrix [rows, cols] is cut into tiles of 16 rows by 64 columns; both
// sizes are padded with zeros (rows to 64). Inside a tile, codes lie in the order in which the
// lanes of a warp hold the A operand of a 16x8x16 tensor-core product, so that a kernel loads its
// fragments straight from memory, 16 bytes a lane.
//
// Step j of a tile covers columns 16j to 16j + 15. Lane l of a warp holds 8 elements of it, e = 0
// to 7: row l / 4 + 8 * (e / 2 % 2), column 2 * (l % 4) + e % 2 + 8 * (e / 4) of the step.
//
// Integer codes are split into planes: 4 bits (formats of 4 to 6 bits), 2 bits (2, 3 and 6), 1 bit
// (1, 3 and 5), or whole bytes (8). With p = e / 2 and h = e % 2, an element's field is
//   plane 4: word j of the lane's 4,      bit 4p + 16h
//   plane 2: word j / 2 of the lane's 2,  bit 2p + 8 (j % 2) + 16h
//   plane 1: the lane's word,             bit p + 4j + 16h
//   bytes:   word 2j + e / 4 of the lane's 8, byte e % 4
// so that one shift and one mask give the codes of a register's pair. The 4-bit plane is the low
// part of a code, then 2 bits, then 1.
//
// Scales of a group g of columns and tile row R lie together: for lane row i = 0 to 7 and half h,
// row i + 8h, scale then bias (no bias in symmetric formats). In two levels, sub-scales lie so by
// group and super-scales so by 256 columns.
#pragma once

#include <cstdint>

#include "tensor/matrix_source.h"

namespace mlxcel::cuda {

inline constexpr int kTileRows = 16, kTileCols = 64, kLanes = 32, kSuperCols = 256;
inline constexpr int kRowPadding = 64;

struct FragmentLayout {
  WeightFormat::Kind kind = WeightFormat::Kind::Dense;
  DType dense_type = DType::F32, scale_type = DType::F32;
  int bits = 0, group = 0, sub_scale_bits = 0;
  bool symmetric = false;
  int64_t rows = 0, cols = 0;
  int64_t tile_rows = 0, tile_cols = 0;  // numbers of tiles, padding included
  int64_t groups = 0, supers = 0;        // of a row, padding included
  // Byte offsets of the regions.
  int64_t plane4 = 0, plane2 = 0, plane1 = 0, bytes8 = 0, dense = 0;
  int64_t scales = 0, sub_scales = 0, super_scales = 0;
  int64_t total_bytes = 0;

  int values_per_scale() const { return symmetric ? 1 : 2; }
};

inline FragmentLayout make_fragment_layout(const WeightFormat& f, int64_t rows, int64_t cols) {
  FragmentLayout l;
  l.kind = f.kind;
  l.dense_type = f.dense_type;
  l.scale_type = f.scale_type;
  l.bits = f.bits;
  l.group = f.group;
  l.sub_scale_bits = f.sub_scale_bits;
  l.symmetric = f.symmetric;
  l.rows = rows;
  l.cols = cols;
  l.tile_rows = (rows + kRowPadding - 1) / kRowPadding * (kRowPadding / kTileRows);
  l.tile_cols = (cols + kTileCols - 1) / kTileCols;
  const int64_t tiles = l.tile_rows * l.tile_cols;
  int64_t at = 0;
  const auto region = [&](int64_t bytes) {
    const int64_t begin = at;
    at += (bytes + 255) / 256 * 256;
    return begin;
  };
  if (f.kind == WeightFormat::Kind::Dense) {
    l.dense = region(tiles * kTileRows * kTileCols * size_of(f.dense_type));
    l.total_bytes = at;
    return l;
  }
  if (f.bits == 8) {
    l.bytes8 = region(tiles * kLanes * 32);
  } else {
    if ((f.bits & 4) != 0) l.plane4 = region(tiles * kLanes * 16);
    if ((f.bits & 2) != 0) l.plane2 = region(tiles * kLanes * 8);
    if ((f.bits & 1) != 0) l.plane1 = region(tiles * kLanes * 4);
  }
  // Whole tiles of scales, so that a kernel needs no test at the right edge.
  const int64_t padded = l.tile_cols * kTileCols;
  l.groups = (padded + f.group - 1) / f.group;
  const int64_t values = l.tile_rows * kTileRows * l.values_per_scale();
  if (f.sub_scale_bits == 0) {
    l.scales = region(values * l.groups * size_of(f.scale_type));
  } else {
    l.supers = (padded + kSuperCols - 1) / kSuperCols;
    l.sub_scales = region(values * l.groups);
    l.super_scales = region(values * l.supers * 2);
  }
  l.total_bytes = at;
  return l;
}

/// Index of the scale of row r (its bias is the next) among the values of one region, by group or
/// by super-group `g` of `count`.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline int64_t
    scale_index(int64_t r, int64_t g, int64_t count, int values) {
  const int64_t in_tile = r % kTileRows;
  return ((r / kTileRows * count + g) * kTileRows + in_tile % 8 * 2 + in_tile / 8) * values;
}

/// Lane and element of the place (row, column) inside a tile, and its step.
struct FragmentPlace {
  int step, lane, element;
};
#ifdef __CUDACC__
__host__ __device__
#endif
    inline FragmentPlace
    fragment_place(int row, int col) {
  const int in_step = col % 16;
  FragmentPlace p{};
  p.step = col / 16;
  p.lane = row % 8 * 4 + in_step % 8 / 2;
  p.element = in_step % 2 + row / 8 * 2 + in_step / 8 * 4;
  return p;
}

}  // namespace mlxcel::cuda
