// Bringing the tiles of packed weights to the lanes: straight to registers, or by way of shared
// memory.
#pragma once

#include "backend/cuda/mma.cuh"
#include "backend/cuda/weight_format.cuh"

namespace mlxcel::cuda {

/// One lane's places in the tiles of one tile row; tiles are then found by additions.
template <class F>
struct TileReader {
  const uint8_t *plane4, *plane2, *plane1, *wide, *scales, *supers;
  int group_shift;  // tiles that share a group, as a power of two

  __device__ TileReader(const FragmentLayout& l, const uint8_t* data, int64_t tile_row, int lane) {
    const int64_t at = tile_row * l.tile_cols * kLanes + lane, i = lane / 4;
    plane4 = data + l.plane4 + at * 16;
    plane2 = data + l.plane2 + at * 8;
    plane1 = data + l.plane1 + at * 4;
    wide = F::kDense ? data + l.dense + (tile_row * l.tile_cols * 4 * kLanes + lane) * 16
                     : data + l.bytes8 + at * 32;
    const int64_t group = tile_row * l.groups * 8 + i;
    scales = F::kTwoLevels ? data + l.sub_scales + group * F::kScaleBytes
                           : data + l.scales + group * F::kScaleBytes;
    supers = data + l.super_scales + (tile_row * l.supers * 8 + i) * F::kSuperBytes;
    group_shift = l.group == 128 ? 1 : 0;
  }

  __device__ void load(int tile, TileWords<F>& w) const {
    if constexpr (F::kDense) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        load_words<4>(wide + int64_t{tile} * (4 * kLanes * 16) + j * (kLanes * 16),
                      w.codes + 4 * j);
      }
      return;
    } else if constexpr (F::kBits == 8) {
      load_words<4>(wide + int64_t{tile} * (kLanes * 32), w.codes);
      load_words<4>(wide + int64_t{tile} * (kLanes * 32) + 16, w.codes + 4);
    } else {
      int next = 0;
      if constexpr ((F::kBits & 4) != 0) {
        load_words<4>(plane4 + int64_t{tile} * (kLanes * 16), w.codes);
        next = 4;
      }
      if constexpr ((F::kBits & 2) != 0) {
        load_words<2>(plane2 + int64_t{tile} * (kLanes * 8), w.codes + next);
        next += 2;
      }
      if constexpr ((F::kBits & 1) != 0) {
        load_words<1>(plane1 + int64_t{tile} * (kLanes * 4), w.codes + next);
      }
    }
    const int first_group = F::kSets == 1 ? tile >> group_shift : tile * F::kSets;
#pragma unroll
    for (int g = 0; g < F::kSets; ++g) {
      const uint8_t* p = scales + int64_t{first_group + g} * (8 * F::kScaleBytes);
      if constexpr (F::kScaleBytes == 8) {
        const uint2 v = __ldg(reinterpret_cast<const uint2*>(p));
        w.scales[2 * g] = v.x;
        w.scales[2 * g + 1] = v.y;
      } else {
        w.scales[g] = F::kScaleBytes == 4 ? load_word(p) : load_half_word(p);
      }
    }
    if constexpr (F::kTwoLevels) {
      const uint8_t* p = supers + int64_t{tile / (kSuperCols / kTileCols)} * (8 * F::kSuperBytes);
      if constexpr (F::kPair) {
        const uint2 v = __ldg(reinterpret_cast<const uint2*>(p));
        w.supers[0] = v.x;
        w.supers[1] = v.y;
      } else {
        w.supers[0] = load_word(p);
      }
    }
  }
};

}  // namespace mlxcel::cuda
