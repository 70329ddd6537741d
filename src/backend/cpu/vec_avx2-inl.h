// Vectors of eight floats or 32-bit integers. Included inside an AVX2 region, in its namespace.

inline constexpr int kLanes = 8;
inline constexpr int kMicroRows = 6;
inline constexpr int kGemvTiles = 4;  // at once, so that sums hide the FMA latency
using VF = __m256;
using VI = __m256i;

MLXCEL_INLINE VF zero() { return _mm256_setzero_ps(); }
MLXCEL_INLINE VF set1(float x) { return _mm256_set1_ps(x); }
MLXCEL_INLINE VF load(const float* p) { return _mm256_loadu_ps(p); }
MLXCEL_INLINE void store(float* p, VF v) { _mm256_storeu_ps(p, v); }
MLXCEL_INLINE VF add(VF a, VF b) { return _mm256_add_ps(a, b); }
MLXCEL_INLINE VF sub(VF a, VF b) { return _mm256_sub_ps(a, b); }
MLXCEL_INLINE VF mul(VF a, VF b) { return _mm256_mul_ps(a, b); }
MLXCEL_INLINE VF div(VF a, VF b) { return _mm256_div_ps(a, b); }
MLXCEL_INLINE VF sqrt(VF a) { return _mm256_sqrt_ps(a); }
MLXCEL_INLINE VF fma(VF a, VF b, VF c) { return _mm256_fmadd_ps(a, b, c); }
// The second operand is returned when either is NaN.
MLXCEL_INLINE VF vmax(VF a, VF b) { return _mm256_max_ps(a, b); }
MLXCEL_INLINE VF vmin(VF a, VF b) { return _mm256_min_ps(a, b); }
MLXCEL_INLINE VF round(VF a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MLXCEL_INLINE VF abs(VF a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
// The magnitude of a with the sign of b.
MLXCEL_INLINE VF copy_sign(VF a, VF b) {
  const VF sign = _mm256_set1_ps(-0.0F);
  return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b));
}
MLXCEL_INLINE VF select_less(VF a, VF b, VF yes, VF no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

MLXCEL_INLINE VI set1i(int x) { return _mm256_set1_epi32(x); }
MLXCEL_INLINE VI loadi(const void* p) { return _mm256_loadu_si256(static_cast<const VI*>(p)); }
MLXCEL_INLINE VI bit_and(VI a, VI b) { return _mm256_and_si256(a, b); }
MLXCEL_INLINE VI bit_or(VI a, VI b) { return _mm256_or_si256(a, b); }
MLXCEL_INLINE VI addi(VI a, VI b) { return _mm256_add_epi32(a, b); }
MLXCEL_INLINE VI subi(VI a, VI b) { return _mm256_sub_epi32(a, b); }
MLXCEL_INLINE VI shl(VI a, int n) { return _mm256_slli_epi32(a, n); }
MLXCEL_INLINE VI shr(VI a, int n) { return _mm256_srli_epi32(a, n); }
MLXCEL_INLINE VF to_float(VI a) { return _mm256_cvtepi32_ps(a); }
MLXCEL_INLINE VI to_int(VF a) { return _mm256_cvtps_epi32(a); }  // to nearest
MLXCEL_INLINE VF as_float(VI a) { return _mm256_castsi256_ps(a); }
MLXCEL_INLINE VI as_int(VF a) { return _mm256_castps_si256(a); }

MLXCEL_INLINE VI load_u8(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
MLXCEL_INLINE VI load_s8(const uint8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
MLXCEL_INLINE VF load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
MLXCEL_INLINE VF load_bf16(const uint16_t* p) {
  return as_float(
      shl(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
MLXCEL_INLINE void store_f16(uint16_t* p, VF v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

MLXCEL_INLINE float sum(VF v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  s = _mm_add_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}
MLXCEL_INLINE float max_of(VF v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  s = _mm_max_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}

// out[0..3] = the sums of a, b, c and d: inside each half even and odd lanes first, then the
// halves.
MLXCEL_INLINE VF zip_add(VF a, VF b) {
  return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}
MLXCEL_INLINE void store_sums4(float* out, VF a, VF b, VF c, VF d) {
  const __m256d ab = _mm256_castps_pd(zip_add(a, b)), cd = _mm256_castps_pd(zip_add(c, d));
  const VF s = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                             _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
