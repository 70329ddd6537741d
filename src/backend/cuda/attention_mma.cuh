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

/// Adds one tile of 32 keys to a piece. `length[h]`: positions that row h of the lane sees.
template <class C, int kDim>
__device__ inline void add_tile(const AttentionParams& p, const uint32_t (&q)[kDim / 16][4],
                                const int (&length)[2], int begin, int lane, uint32_t keys,
                                uint32_t values, Partial<kDim>& piece) {
  constexpr uint32_t kRow = kKeyStride<kDim> * 2;
  float s[kKeyTile / 8][4] = {};
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
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
  float best[2] = {piece.best[0], piece.best[1]};
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = begin + n * 8 + lane % 4 * 2 + i % 2;
      const int end = length[i / 2];
      const bool seen = position < end && (p.window == 0 || position >= end - p.window);
      float v = s[n][i] * p.scale;
      if (p.softcap > 0.0F) v = p.softcap * tanhf(v / p.softcap);
      v = seen ? v * kLog2E : -INFINITY;
      s[n][i] = v;
      best[i / 2] = fmaxf(best[i / 2], v);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    best[h] = fmaxf(best[h], __shfl_xor_sync(~0U, best[h], 1));
    best[h] = fmaxf(best[h], __shfl_xor_sync(~0U, best[h], 2));
    const float keep = piece.best[h] == best[h] ? 1.0F : weight_of(piece.best[h], best[h]);
    piece.best[h] = best[h];
    piece.total[h] *= keep;
#pragma unroll
    for (auto& o : piece.o) o[2 * h] *= keep, o[2 * h + 1] *= keep;
  }
#pragma unroll
  for (int n = 0; n < kKeyTile / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s[n][i] = weight_of(s[n][i], best[i / 2]);
      piece.total[i / 2] += s[n][i];
    }
  }
#pragma unroll
  for (int k = 0; k < kKeyTile / 16; ++k) {
    const uint32_t a[4] = {CacheMath<C>::pack(s[2 * k][0], s[2 * k][1]),
                           CacheMath<C>::pack(s[2 * k][2], s[2 * k][3]),
                           CacheMath<C>::pack(s[2 * k + 1][0], s[2 * k + 1][1]),
                           CacheMath<C>::pack(s[2 * k + 1][2], s[2 * k + 1][3])};
    const uint32_t from = values + static_cast<uint32_t>(k * 16 + lane % 16) * kRow +
                          static_cast<uint32_t>(lane / 16) * 16;
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      ldmatrix4_transposed(b, from + static_cast<uint32_t>(n) * 32);
      CacheMath<C>::mma(piece.o[2 * n], a, b[0], b[1]);
      CacheMath<C>::mma(piece.o[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// Brings the sum of a piece from the four lanes of a row together.
template <int kDim>
__device__ inline void close_piece(Partial<kDim>& piece) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    piece.total[h] += __shfl_xor_sync(~0U, piece.total[h], 1);
    piece.total[h] += __shfl_xor_sync(~0U, piece.total[h], 2);
  }
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
