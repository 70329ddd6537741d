// Products of up to some hundred rows on tensor cores: the weights are the 16-row operand, rows of
// x the 8-column one, so that reading weights once serves 8 to 64 rows of x.
//
// One order for every number of rows: the columns are cut into `slices` of whole tiles, a number
// that the matrix fixes; inside a slice the tensor core adds 16 columns after 16, and slices are
// added from first to last. A slice is a block of a cluster, and the blocks of a cluster exchange
// their sums through shared memory.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>

#include "backend/cuda/fragments.cuh"
#include "backend/cuda/linear.h"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/ordering.cuh"
#include "backend/cuda/runtime.h"

namespace mlxcel::cuda {

constexpr int kMmaWarps = 8, kMmaThreads = kMmaWarps * 32, kMmaRows = kMmaWarps * kTileRows;
constexpr int kChunkTiles = 4,
              kChunkCols = kChunkTiles * kTileCols;  // of x in shared memory at once
constexpr int kChunkStages = 3;
constexpr int kChunkStride = kChunkCols + 8;  // rows of a chunk start in different banks

struct MmaParams {
  FragmentLayout layout;
  const uint8_t* data = nullptr;
  const __nv_bfloat16* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;
  int m = 0, slices = 1;
  int slice_tiles = 0;  // tiles of a slice, the last may have fewer
  bool y_f32 = false, f16_scales = false;
};

/// acc += one tile of weights times 64 columns of x. `x` is the address of the lane's row and
/// column part (ldmatrix4), `x_rows` the bytes between groups of 8 rows. Calls `taken` once the
/// words of the tile are no longer needed.
template <class F, int kNTiles, class Taken>
__device__ inline void multiply_tile(const TileWords<F>& w, bool f16_scales, uint32_t x,
                                     uint32_t x_rows, float (&acc)[kNTiles][4],
                                     const Taken& taken) {
  GroupScales<F> scales;
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    uint32_t a[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int j = pair * 2 + half;
      if constexpr (!F::kDense) {
        if (j % (4 / F::kSets) == 0) {
          scales = group_scales<F>(w, j / (4 / F::kSets), f16_scales);
        }
      }
      fragment<F>(w, scales, j, a[half]);
    }
    if (pair == 1) taken();
#pragma unroll
    for (int n = 0; n < kNTiles; ++n) {
      uint32_t b[4];
      ldmatrix4(b, x + static_cast<uint32_t>(n) * x_rows + static_cast<uint32_t>(pair) * 64);
      mma_bf16(acc[n], a[0], b[0], b[1]);
      mma_bf16(acc[n], a[1], b[2], b[3]);
    }
  }
}

/// Writes the sum of row `row` of x and row `out` of the matrix.
__device__ inline void store_sum(const MmaParams& p, int row, int64_t out, float sum) {
  if (p.bias != nullptr) sum += p.bias[out];
  const int64_t at = row * p.y_stride + out;
  if (p.y_f32) {
    static_cast<float*>(p.y)[at] = sum;
  } else {
    static_cast<__nv_bfloat16*>(p.y)[at] = __float2bfloat16_rn(sum);
  }
}

#if __CUDA_ARCH__ >= 900
/// Adds the slices' sums in order and writes y. `memory` is shared and no longer used otherwise.
template <int kNTiles>
__device__ inline void finish_slices(const MmaParams& p, uint8_t* memory,
                                     const float (&acc)[kNTiles][4]) {
  namespace cg = cooperative_groups;
  constexpr int kColumns = kNTiles * 8;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row0 = static_cast<int>(blockIdx.z) * kColumns;
  __syncthreads();
  // Partial sums, [column of y][row of the block], in shared memory of each slice.
  constexpr int kSumStride = kMmaRows + 4;
  auto* sums = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = n * 8 + lane % 4 * 2 + i % 2,
                row = warp * kTileRows + lane / 4 + i / 2 * 8;
      sums[column * kSumStride + row] = acc[n][i];
    }
  }
  auto cluster = cg::this_cluster();
  if (p.slices > 1) {
    cluster.sync();
  } else {
    __syncthreads();
  }
  const int share = kMmaRows / p.slices;  // rows of the block that this slice finishes
  const int columns = min(kColumns, p.m - row0);
  for (int i = static_cast<int>(threadIdx.x); i < columns * share; i += kMmaThreads) {
    const int column = i / share, row = static_cast<int>(blockIdx.y) * share + i % share;
    const int64_t out = int64_t{blockIdx.x} * kMmaRows + row;
    if (out >= p.layout.rows) continue;
    float sum = 0.0F;
    for (int s = 0; s < p.slices; ++s) {
      const float* from = p.slices > 1 ? cluster.map_shared_rank(sums, s) : sums;
      const float part = from[column * kSumStride + row];
      sum = s == 0 ? part : sum + part;
    }
    store_sum(p, row0 + column, out, sum);
  }
  if (p.slices > 1) cluster.sync();  // others may still read this block's sums
}
#endif

}  // namespace mlxcel::cuda
