// Sixteen-bit activations: reading a pair of them.

// The two activations of a pair of row r in every lane.
template <int kRows>
MLXCEL_INLINE VI pair_of(const int16_t* q, int pair, int r) {
  int32_t two;
  __builtin_memcpy(&two, q + (pair * kRows + r) * 2, 4);
  return set1i(two);
}

// sums = exact products of kCount pairs from `first` on.
template <int kRows, int kCount, class Weights>
MLXCEL_INLINE void dot_pairs(const Weights& w, const int16_t* q, int first,
                             VI (&sums)[kRows][kVecs]) {
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) sums[r][v] = set1i(0);
  }
  MLXCEL_UNROLL for (int i = 0; i < kCount; ++i) {
    VI codes[kVecs];
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) codes[v] = w.at(first + i, v);
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const VI x = pair_of<kRows>(q, first + i, r);
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) add_products(sums[r][v], codes[v], x);
    }
  }
}

// One chunk for kRows rows: y = part * x_scale + y. `x` points at the chunk; scales and biases are
// functors of (sub group, vector).
template <bool kSymmetric, int kSubs, int kRows, class Weights, class Scales, class Biases>
MLXCEL_INLINE void add_chunk(const Weights& w, const QuantizedX& x, int64_t chunk,
                             const Scales& scales, const Biases& biases, VF (&y)[kRows][kVecs]) {
  const int16_t* q = x.q + chunk * kChunk * kRows;
  const float* x_scales = x.scales + chunk * kRows;
  const float* sums = kSymmetric ? nullptr : x.sums + chunk * kSubs * kRows;
  const int32_t* corrections = kSymmetric ? x.corrections + chunk * kSubs * kRows : nullptr;
  VF part[kRows][kVecs];
  MLXCEL_UNROLL for (int s = 0; s < kSubs; ++s) {
    VI dots[kRows][kVecs];
    dot_pairs<kRows, kPairs / kSubs>(w, q, s * (kPairs / kSubs), dots);
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      const VF scale = scales(s, v);
      MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
        if constexpr (kSymmetric) dots[r][v] = addi(dots[r][v], set1i(corrections[s * kRows + r]));
        const VF dot = to_float(dots[r][v]);
        part[r][v] = s == 0 ? mul(dot, scale) : fma(dot, scale, part[r][v]);
      }
      if constexpr (!kSymmetric) {
        const VF bias = biases(s, v);
        MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
          part[r][v] = fma(bias, set1(sums[s * kRows + r]), part[r][v]);
        }
      }
    }
  }
  MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      y[r][v] = fma(part[r][v], set1(x_scales[r]), y[r][v]);
    }
  }
}
