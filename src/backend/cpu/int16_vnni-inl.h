// Products of sixteen-bit integers with AVX-512 VNNI: two a lane and instruction, added in one.

inline constexpr int kInt16Rows = 12;  // of the micro kernel: enough sums to hide the latency

MLXCEL_INLINE void storei(void* p, VI v) { _mm512_storeu_si512(p, v); }
MLXCEL_INLINE void add_products(VI& sum, VI codes, VI x) {
  sum = _mm512_dpwssd_epi32(sum, codes, x);
}
MLXCEL_INLINE int sum_of_ints(VI v) { return _mm512_reduce_add_epi32(v); }
// 32 integers as sixteen bits each, in order.
MLXCEL_INLINE void store_words(int16_t* out, const VI (&v)[2]) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(v[0]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out) + 1, _mm512_cvtepi32_epi16(v[1]));
}
