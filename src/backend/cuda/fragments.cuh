// From packed weights to the bf16 fragments of a 16x8x16 tensor-core product. Weights are rounded
// once, w = bf16(scale * code + bias) with scale and bias in bf16 (in f32 for 8-bit codes), the
// same in every kernel that multiplies on tensor cores.
#pragma once

#include "backend/cuda/tile_words.cuh"

namespace mlxcel::cuda {

__device__ inline uint32_t as_word(__nv_bfloat162 v) { return *reinterpret_cast<uint32_t*>(&v); }
__device__ inline __nv_bfloat162 as_pair(uint32_t w) {
  return *reinterpret_cast<__nv_bfloat162*>(&w);
}

/// Scale and bias of the two rows of a lane, for one group.
struct RowScales {
  float scale[2], bias[2];
};

__device__ inline float narrow_value(uint32_t bits, bool is_f16) {
  return is_f16 ? __half2float(__ushort_as_half(static_cast<unsigned short>(bits)))
                : __uint_as_float(bits << 16);
}

template <class F>
__device__ inline RowScales scales_of(const TileWords<F>& w, int set, bool is_f16) {
  RowScales r;
  constexpr float kMiddle = static_cast<float>(1 << (F::kBits - 1));
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if constexpr (F::kTwoLevels) {
      const uint32_t sub = w.scales[set] >> (h * (F::kPair ? 16 : 8));
      const uint32_t super = F::kPair ? w.supers[h] : w.supers[0] >> (16 * h);
      r.scale[h] =
          narrow_value(super & 0xFFFFU, true) * static_cast<float>(static_cast<int8_t>(sub));
      if constexpr (F::kPair) {
        r.bias[h] =
            narrow_value(super >> 16, true) * static_cast<float>(static_cast<int8_t>(sub >> 8));
      }
    } else if constexpr (F::kPair) {
      r.scale[h] = narrow_value(w.scales[2 * set + h] & 0xFFFFU, is_f16);
      r.bias[h] = narrow_value(w.scales[2 * set + h] >> 16, is_f16);
    } else {
      r.scale[h] = narrow_value(w.scales[set] >> (16 * h) & 0xFFFFU, is_f16);
    }
    if constexpr (!F::kPair) r.bias[h] = -r.scale[h] * kMiddle;
  }
  return r;
}

/// Scales as the products below want them: bf16 pairs of equal halves, or f32 for 8 bits.
template <class F>
struct GroupScales {
  __nv_bfloat162 scale[2], bias[2];
  RowScales exact;
};

template <class F>
__device__ inline GroupScales<F> group_scales(const TileWords<F>& w, int set, bool is_f16) {
  GroupScales<F> g;
  if constexpr (F::kBits != 8 && F::kKind == ScaleKind::Pair) {
    if (!is_f16) {  // bf16 as stored
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        g.scale[h] = as_pair(__byte_perm(w.scales[2 * set + h], 0, 0x1010));
        g.bias[h] = as_pair(__byte_perm(w.scales[2 * set + h], 0, 0x3232));
      }
      return g;
    }
  }
  g.exact = scales_of<F>(w, set, is_f16);
  if constexpr (F::kBits != 8) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      g.scale[h] = __float2bfloat162_rn(g.exact.scale[h]);
      g.bias[h] = __float2bfloat162_rn(g.exact.bias[h]);
    }
  }
  return g;
}

/// (a & kMask) | c in one instruction, which needs one of the constants in a register.
template <uint32_t kMask>
__device__ inline uint32_t masked_or(uint32_t a, uint32_t c) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(a), "n"(kMask), "r"(c));
  return r;
}

/// Codes of register p of step j as bf16 128 + code.
template <class F>
__device__ inline uint32_t code_pair(const TileWords<F>& w, int j, int p) {
  uint32_t r;
  asm("mov.b32 %0, 0x43004300;" : "=r"(r));
  [[maybe_unused]] int next = 0;
  constexpr int kHigh = (F::kBits & 4) != 0 ? 4 : 0, kTop = kHigh + ((F::kBits & 2) != 0 ? 2 : 0);
  if constexpr ((F::kBits & 4) != 0) {
    r = masked_or<0x000F000FU>(w.codes[j] >> (4 * p), r);
    next = 4;
  }
  if constexpr ((F::kBits & 2) != 0) {
    const int at = 2 * p + 8 * (j % 2) - kHigh;
    const uint32_t v = w.codes[next + j / 2];
    r = masked_or<(0x00030003U << kHigh)>(at >= 0 ? v >> at : v << -at, r);
    next += 2;
  }
  if constexpr ((F::kBits & 1) != 0) {
    const int at = p + 4 * j - kTop;
    const uint32_t v = w.codes[next];
    r = masked_or<(0x00010001U << kTop)>(at >= 0 ? v >> at : v << -at, r);
  }
  return r;
}

/// The A fragment of step j: rows l / 4 and l / 4 + 8 of the tile.
template <class F>
__device__ inline void fragment(const TileWords<F>& w, const GroupScales<F>& g, int j,
                                uint32_t (&a)[4]) {
  if constexpr (F::kDense) {
#pragma unroll
    for (int p = 0; p < 4; ++p) a[p] = w.codes[4 * j + p];
  } else if constexpr (F::kBits == 8) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      // A byte under the exponent of 2^23 is 2^23 plus the byte.
      const uint32_t word = w.codes[2 * j + p / 2];
      const int byte = p % 2 * 2;
      const float x = __uint_as_float(__byte_perm(word, 0x4B000000U, 0x7540 + byte)) - 8388608.0F;
      const float y =
          __uint_as_float(__byte_perm(word, 0x4B000000U, 0x7540 + byte + 1)) - 8388608.0F;
      const int h = p % 2;
      a[p] = as_word(__floats2bfloat162_rn(fmaf(x, g.exact.scale[h], g.exact.bias[h]),
                                           fmaf(y, g.exact.scale[h], g.exact.bias[h])));
    }
  } else {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const __nv_bfloat162 code =
          __hsub2(as_pair(code_pair<F>(w, j, p)), as_pair(0x43004300U));  // exact
      a[p] = as_word(__hfma2(code, g.scale[p % 2], g.bias[p % 2]));
    }
  }
}

}  // namespace mlxcel::cuda
