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

// Copies columns [begin, begin + kChunkCols) of x into one stage, zeros beyond its edges.
template <int kColumns>
__device__ inline void copy_chunk(const MmaParams& p, int row0, int64_t begin, uint32_t stage) {
  constexpr int kPacks = kChunkCols / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kColumns * kPacks; i += kMmaThreads) {
    const int n = i / kPacks, c = i % kPacks;
    const int64_t col = begin + c * 8;
    const bool valid = row0 + n < p.m && col < p.layout.cols;
    const __nv_bfloat16* from = valid ? p.x + (row0 + n) * p.x_stride + col : p.x;
    copy16_async(stage + static_cast<uint32_t>(n * kChunkStride + c * 8) * 2, from, valid);
  }
}

template <class F, int kNTiles>
__global__ void __launch_bounds__(kMmaThreads, kNTiles <= 2 ? 2 : 1) mma_kernel(MmaParams p) {
#if __CUDA_ARCH__ >= 900
  namespace cg = cooperative_groups;
  constexpr int kColumns = kNTiles * 8;
  constexpr int kAhead = F::kDense ? 2 : 4;  // tiles of weights on their way to registers
  constexpr uint32_t kStageBytes = kColumns * kChunkStride * 2;
  extern __shared__ __align__(128) uint8_t memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tile_row = int64_t{blockIdx.x} * kMmaWarps + warp;
  const bool active = tile_row < p.layout.tile_rows;
  const int row0 = static_cast<int>(blockIdx.z) * kColumns;
  const int64_t first = int64_t{blockIdx.y} * p.slice_tiles;
  const int64_t last = min(first + p.slice_tiles, p.layout.tile_cols);
  const uint32_t stages = shared_address(memory);

  allow_next_launch();
  TileWords<F> words[kAhead];
  const auto fetch = [&](int64_t tile, TileWords<F>& w) {
    if (active && tile < last) load_tile<F>(p.layout, p.data, tile_row, tile, lane, w);
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(first + u, words[u]);  // weights do not wait for x
  wait_for_last_launch();

  float acc[kNTiles][4] = {};
  const int chunks = static_cast<int>((last - first + kChunkTiles - 1) / kChunkTiles);
#pragma unroll
  for (int c = 0; c < kChunkStages - 1; ++c) {
    if (c < chunks)
      copy_chunk<kColumns>(p, row0, (first + c * kChunkTiles) * kTileCols,
                           stages + c * kStageBytes);
    commit_copies();
  }
  const uint32_t lane_offset = static_cast<uint32_t>((lane % 8) * kChunkStride + lane / 8 * 8) * 2;
  for (int c = 0; c < chunks; ++c) {
    wait_copies<kChunkStages - 2>();
    __syncthreads();
    const int next = c + kChunkStages - 1;
    if (next < chunks) {
      copy_chunk<kColumns>(p, row0, (first + next * kChunkTiles) * kTileCols,
                           stages + next % kChunkStages * kStageBytes);
    }
    commit_copies();
    if (!active) continue;
    const uint32_t stage = stages + c % kChunkStages * kStageBytes + lane_offset;
#pragma unroll
    for (int u = 0; u < kChunkTiles; ++u) {
      const int64_t tile = first + c * kChunkTiles + u;
      if (tile >= last) break;
      TileWords<F>& w = words[u % kAhead];
      GroupScales<F> scales;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        uint32_t a[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int j = pair * 2 + half;
          if constexpr (!F::kDense) {
            if (j % (4 / F::kSets) == 0) {
              scales = group_scales<F>(w, j / (4 / F::kSets), p.f16_scales);
            }
          }
          fragment<F>(w, scales, j, a[half]);
        }
        if (pair == 1) fetch(tile + kAhead, w);
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) {
          uint32_t b[4];
          ldmatrix4(
              b,
              stage + static_cast<uint32_t>(n * 8 * kChunkStride + u * kTileCols + pair * 32) * 2);
          mma_bf16(acc[n], a[0], b[0], b[1]);
          mma_bf16(acc[n], a[1], b[2], b[3]);
        }
      }
    }
  }

  // Partial sums, [column of y][row of the block], in shared memory of each slice.
  wait_copies<0>();
  __syncthreads();
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
    if (p.bias != nullptr) sum += p.bias[out];
    const int64_t at = (row0 + column) * p.y_stride + out;
    if (p.y_f32) {
      static_cast<float*>(p.y)[at] = sum;
    } else {
      static_cast<__nv_bfloat16*>(p.y)[at] = __float2bfloat16_rn(sum);
    }
  }
  if (p.slices > 1) cluster.sync();  // others may still read this block's sums
#endif
}

}  // namespace mlxcel::cuda
