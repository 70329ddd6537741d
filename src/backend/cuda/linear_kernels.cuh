// The two kernels of tensor-core products (linear_mma.cuh).
#pragma once

#include "backend/cuda/linear_mma.cuh"

namespace mlxcel::cuda {

// Up to 8 rows, with x in shared memory as a whole: warps then run on without waiting for each
// other. A block has blockDim.x / 32 / slices rows of tiles, and a warp for every slice of each;
// how many rows a block has changes no bit. Columns of the product beyond p.m repeat the last row
// and go nowhere.
template <class F, int kThreads>
__global__ void __launch_bounds__(kThreads, 1) few_rows_kernel(MmaParams p) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) uint8_t memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = static_cast<int>(blockDim.x) / 32 / p.slices;  // rows of tiles of a block
  const int slice = warp / tiles;
  const int64_t tile_row = int64_t{blockIdx.x} * tiles + warp % tiles;
  const bool active = tile_row < p.layout.tile_rows;
  const int first = slice * p.slice_tiles;
  const int last = active ? min(first + p.slice_tiles, static_cast<int>(p.layout.tile_cols)) : 0;
  const int padded = static_cast<int>(p.layout.tile_cols) * kTileCols, stride = padded + 8;
  const TileReader<F> reader(p.layout, p.data, active ? tile_row : 0, lane);
  float acc[1][4] = {};
  const auto load_x = [&] {
    for (int n = 0; n < p.m; ++n) {
      for (int c = static_cast<int>(threadIdx.x) * 8; c < padded;
           c += static_cast<int>(blockDim.x) * 8) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (c < p.layout.cols) {
          v = *reinterpret_cast<const uint4*>(p.x + n * p.x_stride + c);
        }
        *reinterpret_cast<uint4*>(memory + (n * stride + c) * 2) = v;
      }
    }
    __syncthreads();
  };
  const uint32_t mine = shared_address(memory) +
                        static_cast<uint32_t>(min(lane % 8, p.m - 1) * stride + lane / 8 * 8) * 2;
  const auto x_of = [&](int tile) { return mine + static_cast<uint32_t>(tile * kTileCols) * 2; };
  allow_next_launch();
  // More registers a thread allow more weights on their way.
  constexpr bool kRoomy = kThreads <= 512;
  constexpr int kAhead = F::kDense ? (kRoomy ? 4 : 2) : F::kCodeWords <= 4 ? (kRoomy ? 8 : 4) : 4;
  TileWords<F> words[kAhead];
  const auto fetch = [&](int tile, TileWords<F>& w) {
    if (tile < last) reader.load(tile, w);
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(first + u, words[u]);  // weights do not wait for x
  wait_for_last_launch();
  load_x();
  for (int begin = first; begin < last; begin += kAhead) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int tile = begin + u;
      if (tile >= last) break;
      multiply_tile<F, 1>(words[u], p.f16_scales, x_of(tile), 0, acc,
                          [&] { fetch(tile + kAhead, words[u]); });
    }
  }
  // Sums of the slices, [slice][column][row of the block].
  __syncthreads();
  auto* sums = reinterpret_cast<float*>(memory);
  const int rows = tiles * kTileRows;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int column = lane % 4 * 2 + i % 2, row = warp % tiles * kTileRows + lane / 4 + i / 2 * 8;
    sums[(slice * 8 + column) * rows + row] = acc[0][i];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < p.m * rows; i += static_cast<int>(blockDim.x)) {
    const int column = i / rows, row = i % rows;
    const int64_t out = int64_t{blockIdx.x} * rows + row;
    if (out >= p.layout.rows) continue;
    float sum = sums[column * rows + row];
    for (int s = 1; s < p.slices; ++s) sum += sums[(s * 8 + column) * rows + row];
    store_sum(p, column, out, sum);
  }
#endif
}

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
__global__ void __launch_bounds__(kMmaThreads, 2) mma_kernel(MmaParams p) {
#if __CUDA_ARCH__ >= 900
  constexpr int kColumns = kNTiles * 8;
  constexpr int kAhead =
      F::kDense || kNTiles > 2 ? 2 : 4;  // tiles of weights on their way to registers
  constexpr uint32_t kStageBytes = kColumns * kChunkStride * 2;
  extern __shared__ __align__(128) uint8_t memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tile_row = int64_t{blockIdx.x} * kMmaWarps + warp;
  const bool active = tile_row < p.layout.tile_rows;
  const int row0 = static_cast<int>(blockIdx.z) * kColumns;
  const int first = static_cast<int>(blockIdx.y) * p.slice_tiles;
  const int last = min(first + p.slice_tiles, static_cast<int>(p.layout.tile_cols));
  const uint32_t stages = shared_address(memory);

  allow_next_launch();
  TileWords<F> words[kAhead];
  const TileReader<F> reader(p.layout, p.data, active ? tile_row : 0, lane);
  const auto fetch = [&](int tile, TileWords<F>& w) {
    if (tile < last) reader.load(tile, w);
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(first + u, words[u]);  // weights do not wait for x
  wait_for_last_launch();

  float acc[kNTiles][4] = {};
  const int chunks = (last - first + kChunkTiles - 1) / kChunkTiles;
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
      const int tile = first + c * kChunkTiles + u;
      if (tile >= last) break;
      TileWords<F>& w = words[u % kAhead];
      multiply_tile<F, kNTiles>(w, p.f16_scales, stage + static_cast<uint32_t>(u * kTileCols) * 2,
                                8 * kChunkStride * 2, acc, [&] { fetch(tile + kAhead, w); });
    }
  }
  wait_copies<0>();
  finish_slices<kNTiles>(p, memory, acc);
#endif
}

}  // namespace mlxcel::cuda
