// Rounding of activations to sixteen bits: each chunk of a row has the scale max |x| / 32767.

// Words in the order of pairs: n = 16 / low_bits codes share a word, and pair j of 2 n inputs has
// inputs j and j + n.
MLXCEL_INLINE void order_pairs(const int16_t* in, int low_bits, int16_t* out) {
  const auto* from = reinterpret_cast<const __m128i*>(in);
  auto* to = reinterpret_cast<__m128i*>(out);
  if (low_bits <= 2) {
    // Two runs of 8 or 16 inputs, zipped.
    const int run = low_bits == 2 ? 1 : 2;
    for (int i = 0; i < 4; i += 2) {
      const int first = low_bits == 2 ? i : i / 2;
      const __m128i a = _mm_loadu_si128(from + first), b = _mm_loadu_si128(from + first + run);
      _mm_storeu_si128(to + i, _mm_unpacklo_epi16(a, b));
      _mm_storeu_si128(to + i + 1, _mm_unpackhi_epi16(a, b));
    }
    return;
  }
  const __m128i order = low_bits == 4
                            ? _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
                            : _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(to + i, _mm_shuffle_epi8(_mm_loadu_si128(from + i), order));
  }
}

MLXCEL_INLINE void quantize_chunk(const QuantizeArgs& a, const float* x, int64_t chunk, int64_t r) {
  constexpr int kParts = static_cast<int>(kChunk) / kLanes;
  VF in[kParts];
  VF largest = zero();
  VF invalid = zero();  // becomes NaN where an input is not finite
  MLXCEL_UNROLL for (int i = 0; i < kParts; ++i) {
    in[i] = load(x + i * kLanes);
    largest = vmax(largest, abs(in[i]));
    invalid = fma(in[i], zero(), invalid);
  }
  const float size = max_of(largest);
  // 32767 / size would overflow below; such inputs count as zero.
  const float inverse = size > 1e-34F ? 32767.0F / size : 0.0F;
  VI q[kParts];
  MLXCEL_UNROLL for (int i = 0; i < kParts; ++i) q[i] = to_int(mul(in[i], set1(inverse)));
  alignas(64) int16_t words[kChunk], ordered[kChunk];
  store_words(words, q);
  order_pairs(words, a.low_bits, ordered);
  int16_t* out = a.out.q + (chunk * kPairs * a.rows + r) * 2;
  for (int pair = 0; pair < kPairs; ++pair) {
    __builtin_memcpy(out + pair * a.rows * 2, ordered + pair * 2, 4);
  }
  a.out.scales[chunk * a.rows + r] = (inverse > 0.0F ? size / 32767.0F : 0.0F) + sum(invalid);
  if (a.out.sums == nullptr && a.out.corrections == nullptr) return;
  const int parts = kParts / a.sub_groups;
  for (int s = 0; s < a.sub_groups; ++s) {
    VI total = q[s * parts];
    for (int i = 1; i < parts; ++i) total = addi(total, q[s * parts + i]);
    const int32_t integer = sum_of_ints(total);
    const int64_t at = (chunk * a.sub_groups + s) * a.rows + r;
    if (a.out.sums != nullptr) a.out.sums[at] = static_cast<float>(integer);
    if (a.out.corrections != nullptr) a.out.corrections[at] = -a.zero * integer;
  }
}

void quantize_rows(const QuantizeArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.stride;
    int64_t k = 0;
    for (; k + kChunk <= a.cols; k += kChunk) quantize_chunk(a, x + k, k / kChunk, r);
    if (k < a.cols) {
      alignas(64) float rest[kChunk] = {};
      __builtin_memcpy(rest, x + k, static_cast<size_t>(a.cols - k) * 4);
      quantize_chunk(a, rest, k / kChunk, r);
    }
  }
}
