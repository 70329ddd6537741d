// Formats of packed weights as types, and loading what one lane needs of a tile.
#pragma once

#include "backend/cuda/convert.cuh"
#include "backend/cuda/fragment_layout.h"

namespace mlxcel::cuda {

/// How scales are stored, as far as code differs: 16-bit values of either type, or two levels.
enum class ScaleKind { None, Pair, Symmetric, TwoPair, TwoSymmetric };

/// One weight format of the tensor-core kernels. kSets: groups in the 64 columns of a tile (1 for
/// groups of 64 and 128). kBits 16 is dense bf16.
template <int kBitsOf, ScaleKind kKindOf, int kSetsOf>
struct FragmentFormat {
  static constexpr int kBits = kBitsOf, kSets = kSetsOf;
  static constexpr ScaleKind kKind = kKindOf;
  static constexpr bool kDense = kBits == 16;
  static constexpr bool kTwoLevels =
      kKind == ScaleKind::TwoPair || kKind == ScaleKind::TwoSymmetric;
  static constexpr bool kPair = kKind == ScaleKind::Pair || kKind == ScaleKind::TwoPair;
  static constexpr int kCodeWords = kDense ? 16 : kBits;  // of a lane in a tile
};

/// What one lane needs of one tile, as loaded.
template <class F>
struct TileWords {
  uint32_t codes[F::kCodeWords];
  uint32_t scales[F::kDense ? 1 : F::kSets * 2];  // raw words of the groups
  uint32_t supers[F::kTwoLevels ? 2 : 1];
};

__device__ inline uint32_t load_word(const uint8_t* p) {
  return __ldg(reinterpret_cast<const unsigned int*>(p));
}
__device__ inline uint32_t load_half_word(const uint8_t* p) {
  return __ldg(reinterpret_cast<const unsigned short*>(p));
}

template <int kWords>
__device__ inline void load_words(const uint8_t* p, uint32_t* out) {
  if constexpr (kWords == 4) {
    const uint4 v = __ldcs(reinterpret_cast<const uint4*>(p));
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
  } else if constexpr (kWords == 2) {
    const uint2 v = __ldcs(reinterpret_cast<const uint2*>(p));
    out[0] = v.x, out[1] = v.y;
  } else {
    out[0] = __ldcs(reinterpret_cast<const unsigned int*>(p));
  }
}

/// Loads tile (tile_row, tile_col) for this lane.
template <class F>
__device__ inline void load_tile(const FragmentLayout& l, const uint8_t* data, int64_t tile_row,
                                 int64_t tile_col, int lane, TileWords<F>& w) {
  const int64_t at = (tile_row * l.tile_cols + tile_col) * kLanes + lane;
  if constexpr (F::kDense) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t step = ((tile_row * l.tile_cols + tile_col) * 4 + j) * kLanes + lane;
      load_words<4>(data + l.dense + step * 16, w.codes + 4 * j);
    }
    return;
  } else if constexpr (F::kBits == 8) {
    load_words<4>(data + l.bytes8 + at * 32, w.codes);
    load_words<4>(data + l.bytes8 + at * 32 + 16, w.codes + 4);
  } else {
    int next = 0;
    if constexpr ((F::kBits & 4) != 0) load_words<4>(data + l.plane4 + at * 16, w.codes), next = 4;
    if constexpr ((F::kBits & 2) != 0) {
      load_words<2>(data + l.plane2 + at * 8, w.codes + next);
      next += 2;
    }
    if constexpr ((F::kBits & 1) != 0) load_words<1>(data + l.plane1 + at * 4, w.codes + next);
  }
  const int i = lane / 4;
  const int64_t first_group = F::kSets == 1 ? tile_col * kTileCols / l.group : tile_col * F::kSets;
#pragma unroll
  for (int g = 0; g < F::kSets; ++g) {
    const int64_t group = (tile_row * l.groups + first_group + g) * 8 + i;  // of 2 halves
    if constexpr (F::kTwoLevels) {
      const uint8_t* p = data + l.sub_scales + group * 2 * (F::kPair ? 2 : 1);
      w.scales[g] = F::kPair ? load_word(p) : load_half_word(p);
    } else if constexpr (F::kPair) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(data + l.scales + group * 8));
      w.scales[2 * g] = v.x;
      w.scales[2 * g + 1] = v.y;
    } else {
      w.scales[g] = load_word(data + l.scales + group * 4);
    }
  }
  if constexpr (F::kTwoLevels) {
    const int64_t super = (tile_row * l.supers + tile_col * kTileCols / kSuperCols) * 8 + i;
    if constexpr (F::kPair) {
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(data + l.super_scales + super * 8));
      w.supers[0] = v.x;
      w.supers[1] = v.y;
    } else {
      w.supers[0] = load_word(data + l.super_scales + super * 4);
    }
  }
}

}  // namespace mlxcel::cuda
