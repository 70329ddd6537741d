// Products of 17 to 64 rows a block by wgmma: four warps take 64 rows of weights, whose fragments
// they unpack into registers, and the tensor core reads x from shared memory by itself. The order
// of sums, and so every bit, is that of the other kernels.
#pragma once

#include "backend/cuda/linear_mma.cuh"

namespace mlxcel::cuda {

constexpr int kWideColumns = 64, kWideStages = 3;
constexpr uint32_t kWideTileBytes = kWideColumns * kTileCols * 2;
constexpr uint32_t kWideStageBytes = kChunkTiles * kWideTileBytes;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// c += a b: a 64x16 in the registers of four warps, b 16x64 at a descriptor's place.
__device__ inline void wgmma_bf16(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),
        "+f"(c[7][2]), "+f"(c[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#endif

/// Where b lies: rows of 128 bytes, 16-byte parts swizzled by row within groups of 8 rows.
__device__ inline uint64_t wide_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kGroupBytes = 8 * 128;
  return (uint64_t{address & 0x3FFFFU} >> 4) | (uint64_t{1} << 16) | ((kGroupBytes >> 4) << 32) |
         kSwizzle128;
}

__device__ inline void copy_wide_chunk(const MmaParams& p, int row0, int64_t begin,
                                       uint32_t stage) {
  constexpr int kPacks = kChunkCols / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kWideColumns * kPacks; i += kMmaThreads) {
    const int n = i / kPacks, c = i % kPacks;
    const int64_t col = begin + c * 8;
    const bool valid = row0 + n < p.m && col < p.layout.cols;
    const uint32_t to = stage + static_cast<uint32_t>(c / 8) * kWideTileBytes +
                        static_cast<uint32_t>(n * 128 + ((c % 8) ^ (n % 8)) * 16);
    copy16_async(to, valid ? p.x + (row0 + n) * p.x_stride + col : p.x, valid);
  }
}

template <class F>
__global__ void __launch_bounds__(kMmaThreads, 2) wide_kernel(MmaParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kAhead = F::kDense ? 1 : 2;
  extern __shared__ __align__(128) uint8_t memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tile_row = int64_t{blockIdx.x} * kMmaWarps + warp;
  const bool active = tile_row < p.layout.tile_rows;  // alike in four warps: rows are padded to 64
  const int row0 = static_cast<int>(blockIdx.z) * kWideColumns;
  const int first = static_cast<int>(blockIdx.y) * p.slice_tiles;
  const int last = min(first + p.slice_tiles, static_cast<int>(p.layout.tile_cols));
  const uint32_t stages = (shared_address(memory) + 1023U) & ~1023U;  // whole swizzle groups
  allow_next_launch();
  TileWords<F> words[kAhead];
  const TileReader<F> reader(p.layout, p.data, active ? tile_row : 0, lane);
  const auto fetch = [&](int tile, TileWords<F>& w) {
    if (tile < last) reader.load(tile, w);
  };
#pragma unroll
  for (int u = 0; u < kAhead; ++u) fetch(first + u, words[u]);
  wait_for_last_launch();
  float acc[8][4] = {};
  const int chunks = (last - first + kChunkTiles - 1) / kChunkTiles;
#pragma unroll
  for (int c = 0; c < kWideStages - 1; ++c) {
    if (c < chunks) {
      copy_wide_chunk(p, row0, int64_t{first + c * kChunkTiles} * kTileCols,
                      stages + static_cast<uint32_t>(c) * kWideStageBytes);
    }
    commit_copies();
  }
  for (int c = 0; c < chunks; ++c) {
    wait_copies<kWideStages - 2>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const int next = c + kWideStages - 1;
    if (next < chunks) {
      copy_wide_chunk(p, row0, int64_t{first + next * kChunkTiles} * kTileCols,
                      stages + static_cast<uint32_t>(next % kWideStages) * kWideStageBytes);
    }
    commit_copies();
    if (!active) continue;
    const uint32_t stage = stages + static_cast<uint32_t>(c % kWideStages) * kWideStageBytes;
#pragma unroll
    for (int u = 0; u < kChunkTiles; ++u) {
      const int tile = first + c * kChunkTiles + u;
      if (tile >= last) break;
      TileWords<F>& w = words[u % kAhead];
      uint32_t a[4][4];
      GroupScales<F> scales;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (!F::kDense) {
          if (j % (4 / F::kSets) == 0) {
            scales = group_scales<F>(w, j / (4 / F::kSets), p.f16_scales);
          }
        }
        fragment<F>(w, scales, j, a[j]);
      }
      fetch(tile + kAhead, w);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        wgmma_bf16(acc, a[j],
                   wide_descriptor(stage + static_cast<uint32_t>(u) * kWideTileBytes +
                                   static_cast<uint32_t>(j) * 32));
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
  }
  wait_copies<0>();
  finish_slices<8>(p, memory, acc);
#endif
}

}  // namespace mlxcel::cuda
