// Products of sixteen-bit integers with AVX2: two a lane and instruction.

inline constexpr int kInt16Rows = 6;  // of the micro kernel: what sixteen registers hold

MLXCEL_INLINE void storei(void* p, VI v) { _mm256_storeu_si256(static_cast<VI*>(p), v); }
MLXCEL_INLINE void add_products(VI& sum, VI codes, VI x) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes, x));
  // Compilers otherwise regroup integer sums, compute all products first and spill them.
  asm("" : "+x"(sum));
}
MLXCEL_INLINE int sum_of_ints(VI v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4E));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xB1));
  return _mm_cvtsi128_si32(s);
}
// 32 integers as sixteen bits each, in order.
MLXCEL_INLINE void store_words(int16_t* out, const VI (&v)[4]) {
  storei(out, _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xD8));
  storei(out + 16, _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xD8));
}
