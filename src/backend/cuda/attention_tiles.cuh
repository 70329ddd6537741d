// What tensor-core attention loads: tiles of keys and values, and query fragments.
#pragma once

#include "backend/cuda/attention.h"
#include "backend/cuda/convert.cuh"
#include "backend/cuda/mma.cuh"

namespace mlxcel::cuda {

constexpr int kKeyTile = 32, kTilesInPiece = kAttentionPiece / kKeyTile;
constexpr float kLog2E = 1.44269504F;

template <class C>
struct CacheMath;
template <>
struct CacheMath<__half> {
  __device__ static uint32_t pack(float a, float b) {
    const __half2 v = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&v);
  }
  __device__ static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_f16(c, a, b0, b1);
  }
};
template <>
struct CacheMath<__nv_bfloat16> {
  __device__ static uint32_t pack(float a, float b) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&v);
  }
  __device__ static void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    mma_bf16(c, a, b0, b1);
  }
};

template <int kDim>
constexpr int kKeyStride = kDim + 8;  // elements between rows in shared memory
template <int kDim>
constexpr uint32_t kKeyTileBytes = kKeyTile * kKeyStride<kDim> * 2;

/// Rows of a warp's tile: 64 or 16 rows of a block start at row 0 of the segment's token `first`.
struct RowMap {
  int group, tokens;  // query heads a key/value head; tokens of the block
  __device__ int token(int r) const { return r / group; }
  __device__ int head(int r) const { return r % group; }
  __device__ bool valid(int r) const { return r < group * tokens; }
};

/// Starts copying tile `tile` (32 positions) of keys or values; positions from `end` on and blocks
/// that were given back become zeros.
template <int kDim, int kThreads>
__device__ inline void copy_key_tile(const AttentionParams& p, const uint16_t* cache,
                                     const int32_t* table, int kv_head, int tile, int end,
                                     uint32_t to) {
  constexpr int kPacks = kDim / 8;
  const int begin = tile * kKeyTile;
  const int block = begin < end ? table[begin / p.block_tokens] : -1;
  const int64_t base =
      ((int64_t{block} * p.kv_heads + kv_head) * p.block_tokens + begin % p.block_tokens) * kDim;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) % kThreads; i < kKeyTile * kPacks; i += kThreads) {
    const int t = i / kPacks, c = i % kPacks;
    const bool valid = block >= 0 && begin + t < end;
    const uint16_t* from = valid ? cache + base + t * kDim + c * 8 : cache;
    copy16_async(to + static_cast<uint32_t>(t * kKeyStride<kDim> + c * 8) * 2, from, valid);
  }
}

/// The query fragments of 16 rows, rounded to the type of the cache.
template <class C, int kDim>
__device__ inline void load_queries(const AttentionParams& p, const RowMap& map, int64_t first_row,
                                    int kv_head, int row0, int lane, uint32_t (&q)[kDim / 16][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = row0 + lane / 4 + 8 * h;
    const bool valid = map.valid(r);
    const auto* from = static_cast<const __nv_bfloat16*>(p.q) +
                       (first_row + map.token(r)) * p.q_stride +
                       int64_t{kv_head * map.group + map.head(r)} * kDim;
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float x = 0.0F, y = 0.0F;
        if (valid) {
          const auto v =
              *reinterpret_cast<const __nv_bfloat162*>(from + s * 16 + lane % 4 * 2 + half * 8);
          x = __low2float(v), y = __high2float(v);
        }
        q[s][h + 2 * half] = CacheMath<C>::pack(x, y);
      }
    }
  }
}

}  // namespace mlxcel::cuda
