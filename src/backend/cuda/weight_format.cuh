// Formats of packed weights as types, what a lane holds of a tile, and reading words of it.
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
  // Of the two rows of a lane, for one group.
  static constexpr int kValues = kPair ? 4 : 2;
  static constexpr int kScaleBytes = kDense ? 0 : kValues * (kTwoLevels ? 1 : 2);
  static constexpr int kSuperBytes = kTwoLevels ? kValues * 2 : 0;
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

}  // namespace mlxcel::cuda
