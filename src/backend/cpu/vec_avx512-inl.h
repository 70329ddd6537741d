// Vectors of sixteen floats or 32-bit integers. Included inside an AVX-512 region, in its
// namespace.

inline constexpr int kLanes = 16;
inline constexpr int kMicroRows = 12;
inline constexpr int kGemvTiles = 8;  // at once, so that sums hide the FMA latency
using VF = __m512;
using VI = __m512i;

MLXCEL_INLINE VF zero() { return _mm512_setzero_ps(); }
MLXCEL_INLINE VF set1(float x) { return _mm512_set1_ps(x); }
MLXCEL_INLINE VF load(const float* p) { return _mm512_loadu_ps(p); }
MLXCEL_INLINE void store(float* p, VF v) { _mm512_storeu_ps(p, v); }
MLXCEL_INLINE VF add(VF a, VF b) { return _mm512_add_ps(a, b); }
MLXCEL_INLINE VF sub(VF a, VF b) { return _mm512_sub_ps(a, b); }
MLXCEL_INLINE VF mul(VF a, VF b) { return _mm512_mul_ps(a, b); }
MLXCEL_INLINE VF div(VF a, VF b) { return _mm512_div_ps(a, b); }
MLXCEL_INLINE VF sqrt(VF a) { return _mm512_sqrt_ps(a); }
MLXCEL_INLINE VF fma(VF a, VF b, VF c) { return _mm512_fmadd_ps(a, b, c); }
// The second operand is returned when either is NaN.
MLXCEL_INLINE VF vmax(VF a, VF b) { return _mm512_max_ps(a, b); }
MLXCEL_INLINE VF vmin(VF a, VF b) { return _mm512_min_ps(a, b); }
MLXCEL_INLINE VF round(VF a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
MLXCEL_INLINE VF abs(VF a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), a); }
// The magnitude of a with the sign of b.
MLXCEL_INLINE VF copy_sign(VF a, VF b) {
  const VF sign = _mm512_set1_ps(-0.0F);
  return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, b));
}
MLXCEL_INLINE VF select_less(VF a, VF b, VF yes, VF no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

MLXCEL_INLINE VI set1i(int x) { return _mm512_set1_epi32(x); }
MLXCEL_INLINE VI loadi(const void* p) { return _mm512_loadu_si512(p); }
MLXCEL_INLINE VI bit_and(VI a, VI b) { return _mm512_and_si512(a, b); }
MLXCEL_INLINE VI bit_or(VI a, VI b) { return _mm512_or_si512(a, b); }
MLXCEL_INLINE VI addi(VI a, VI b) { return _mm512_add_epi32(a, b); }
MLXCEL_INLINE VI subi(VI a, VI b) { return _mm512_sub_epi32(a, b); }
MLXCEL_INLINE VI shl(VI a, int n) { return _mm512_slli_epi32(a, static_cast<unsigned>(n)); }
MLXCEL_INLINE VI shr(VI a, int n) { return _mm512_srli_epi32(a, static_cast<unsigned>(n)); }
MLXCEL_INLINE VF to_float(VI a) { return _mm512_cvtepi32_ps(a); }
MLXCEL_INLINE VI to_int(VF a) { return _mm512_cvtps_epi32(a); }  // to nearest
MLXCEL_INLINE VF as_float(VI a) { return _mm512_castsi512_ps(a); }
MLXCEL_INLINE VI as_int(VF a) { return _mm512_castps_si512(a); }

MLXCEL_INLINE VI load_u8(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
MLXCEL_INLINE VI load_s8(const uint8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
MLXCEL_INLINE VF load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
MLXCEL_INLINE VF load_bf16(const uint16_t* p) {
  return as_float(
      shl(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
MLXCEL_INLINE void store_f16(uint16_t* p, VF v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

MLXCEL_INLINE float sum(VF v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  s = _mm_add_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}
MLXCEL_INLINE float max_of(VF v) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  s = _mm_max_ss(s, _mm_movehdup_ps(s));
  return _mm_cvtss_f32(s);
}

// out[0..3] = the sums of a, b, c and d: inside each quarter even and odd lanes first, then the
// quarters.
MLXCEL_INLINE VF zip_add(VF a, VF b) {
  return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
MLXCEL_INLINE void store_sums4(float* out, VF a, VF b, VF c, VF d) {
  const __m512d ab = _mm512_castps_pd(zip_add(a, b)), cd = _mm512_castps_pd(zip_add(c, d));
  const VF s = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
