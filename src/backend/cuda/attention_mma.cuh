// Paged attention on tensor cores, for 16-bit caches and equal head sizes of keys and values.
//
// A warp works on 16 rows; a row is a (token, query head) pair of one key/value head, so that the
// heads of a group share what is read. Keys come in tiles of 32 positions; kAttentionPiece
// positions form a piece, whose maximum, sum and values start empty and are merged into those of
// the pieces before it. Which warp handles a piece makes no difference to a bit: decoding spreads
// the pieces of a sequence over the device, prompts take them one after the other.
#pragma once

#include "backend/cuda/attention_tiles.cuh"

namespace mlxcel::cuda {

/// Maximum (in units of log2), sum and values of the two rows of a lane over some positions.
template <int kDim>
struct Partial {
  float best[2], total[2];
  float o[kDim / 8][4];
  __device__ void clear() {
    best[0] = best[1] = -INFINITY;
    total[0] = total[1] = 0.0F;
#pragma unroll
    for (auto& v : o) v[0] = v[1] = v[2] = v[3] = 0.0F;
  }
};

/// 2^(a - b), 0 for a of -infinity even when b is, too.
__device__ inline float weight_of(float a, float b) { return a == -INFINITY ? 0.0F : exp2f(a - b); }

/// Scores of 32 keys in units of log2, -infinity where a row does not see. `length[h]`: positions
/// that row h of the lane sees.
template <class C, int kDim>
__device__ inline void score_tile(const AttentionParams& p, const uint32_t (&q)[kDim / 16][4],
                                  const int (&length)[2], int begin, int lane, uint32_t keys,
                                  float (&s)[kKeyTile / 8][4], float (&best)[2]) {
  constexpr uint32_t kRow = kKeyStride<kDim> * 2;
  best[0] = best[1] = -INFINITY;
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
    s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.0F;
    const uint32_t from = keys + static_cast<uint32_t>(n * 8 + lane % 8) * kRow +
                          static_cast<uint32_t>(lane / 8) * 16;
#pragma unroll
    for (int d = 0; d < kDim / 32; ++d) {
      uint32_t b[4];
      ldmatrix4(b, from + static_cast<uint32_t>(d) * 64);
      CacheMath<C>::mma(s[n], q[2 * d], b[0], b[1]);
      CacheMath<C>::mma(s[n], q[2 * d + 1], b[2], b[3]);
    }
  }
  // Most tiles of a long prompt are seen whole by all rows.
  const bool whole = p.window == 0 && p.softcap == 0.0F &&
                     __all_sync(~0U, begin + kKeyTile <= min(length[0], length[1]));
  if (whole) {
    const float scale = p.scale * kLog2E;
#pragma unroll
    for (int n = 0; n < kKeyTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] *= scale;
        best[i / 2] = fmaxf(best[i / 2], s[n][i]);
      }
    }
  }
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
    if (whole) break;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = begin + n * 8 + lane % 4 * 2 + i % 2;
      const int end = length[i / 2];
      const bool seen = position < end && (p.window == 0 || position >= end - p.window);
      float v = s[n][i] * (p.softcap > 0.0F ? p.scale : p.scale * kLog2E);
      if (p.softcap > 0.0F) v = p.softcap * tanhf(v / p.softcap) * kLog2E;
      s[n][i] = seen ? v : -INFINITY;
      best[i / 2] = fmaxf(best[i / 2], s[n][i]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    best[h] = fmaxf(best[h], __shfl_xor_sync(~0U, best[h], 1));
    best[h] = fmaxf(best[h], __shfl_xor_sync(~0U, best[h], 2));
  }
}

/// Turns scores into weights against `best`; returns their sums, the same in the lanes of a row.
__device__ inline void weigh_tile(float (&s)[kKeyTile / 8][4], const float (&best)[2],
                                  float (&total)[2]) {
  total[0] = total[1] = 0.0F;
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[n][i] = weight_of(s[n][i], best[i / 2]);
      total[i / 2] += s[n][i];
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    total[h] += __shfl_xor_sync(~0U, total[h], 1);
    total[h] += __shfl_xor_sync(~0U, total[h], 2);
  }
}

/// The weighted values of a tile, 16 elements of a head after the other: take(n, sums) gets those
/// of elements 16n to 16n + 15.
template <class C, int kDim, class Take>
__device__ inline void value_tile(const float (&s)[kKeyTile / 8][4], int lane, uint32_t values,
                                  const Take& take) {
  constexpr uint32_t kRow = kKeyStride<kDim> * 2;
  uint32_t a[kKeyTile / 16][4];
#pragma unroll
  for (int k = 0; k < kKeyTile / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[k][i] = CacheMath<C>::pack(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1]);
    }
  }
  const uint32_t from =
      values + static_cast<uint32_t>(lane % 16) * kRow + static_cast<uint32_t>(lane / 16) * 16;
#pragma unroll
  for (int n = 0; n < kDim / 16; ++n) {
    float sums[2][4] = {};
#pragma unroll
    for (int k = 0; k < kKeyTile / 16; ++k) {
      uint32_t b[4];
      ldmatrix4_transposed(
          b, from + static_cast<uint32_t>(k) * 16 * kRow + static_cast<uint32_t>(n) * 32);
      CacheMath<C>::mma(sums[0], a[k], b[0], b[1]);
      CacheMath<C>::mma(sums[1], a[k], b[2], b[3]);
    }
    take(n, sums);
  }
}

/// Factor of what a piece holds when its maximum grows from `before` to `best`.
__device__ inline float keep_of(float before, float best) {
  return before == best ? 1.0F : weight_of(before, best);
}

/// Adds one tile of 32 keys to a piece.
template <class C, int kDim>
__device__ inline void add_tile(const AttentionParams& p, const uint32_t (&q)[kDim / 16][4],
                                const int (&length)[2], int begin, int lane, uint32_t keys,
                                uint32_t values, Partial<kDim>& piece) {
  float s[kKeyTile / 8][4], best[2], total[2], keep[2];
  score_tile<C, kDim>(p, q, length, begin, lane, keys, s, best);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    best[h] = fmaxf(best[h], piece.best[h]);
    keep[h] = keep_of(piece.best[h], best[h]);
    piece.best[h] = best[h];
  }
  weigh_tile(s, best, total);
#pragma unroll
  for (int h = 0; h < 2; ++h) piece.total[h] = fmaf(piece.total[h], keep[h], total[h]);
  value_tile<C, kDim>(s, lane, values, [&](int n, const float(&sums)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& o = piece.o[2 * n + i / 4][i % 4];
      o = fmaf(o, keep[i % 4 / 2], sums[i / 4][i % 4]);
    }
  });
}

/// Factors of what was merged before and of a piece; `best` becomes that of both.
struct MergeWeights {
  float keep, take;
};
__device__ inline MergeWeights merge_weights(float& best, float piece_best) {
  const float next = fmaxf(best, piece_best);
  const MergeWeights w{best == next ? 1.0F : weight_of(best, next), weight_of(piece_best, next)};
  best = next;
  return w;
}
__device__ inline float merge(float before, float piece, const MergeWeights& w) {
  return fmaf(before, w.keep, piece * w.take);
}

}  // namespace mlxcel::cuda
