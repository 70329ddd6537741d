// Vectors of four floats or 32-bit integers in the compilers' portable vector extension: SSE on
// x86-64-v2, NEON on Arm. Included in a namespace of its own.

inline constexpr int kLanes = 4;
#if defined(__aarch64__)
inline constexpr int kMicroRows = 6;  // 24 of 32 registers hold sums
inline constexpr int kGemvTiles = 2;
#else
inline constexpr int kMicroRows = 2;  // 8 of 16 registers hold sums
inline constexpr int kGemvTiles = 1;
#endif
using VF = float __attribute__((vector_size(16)));
using VI = int32_t __attribute__((vector_size(16)));
using VU = uint32_t __attribute__((vector_size(16)));

MLXCEL_INLINE VF set1(float x) { return VF{x, x, x, x}; }
MLXCEL_INLINE VF zero() { return set1(0.0F); }
MLXCEL_INLINE VF load(const float* p) {
  VF v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MLXCEL_INLINE void store(float* p, VF v) { __builtin_memcpy(p, &v, sizeof v); }
MLXCEL_INLINE VF add(VF a, VF b) { return a + b; }
MLXCEL_INLINE VF sub(VF a, VF b) { return a - b; }
MLXCEL_INLINE VF mul(VF a, VF b) { return a * b; }
MLXCEL_INLINE VF div(VF a, VF b) { return a / b; }
MLXCEL_INLINE VI as_int(VF a) { return reinterpret_cast<VI>(a); }
MLXCEL_INLINE VF as_float(VI a) { return reinterpret_cast<VF>(a); }
MLXCEL_INLINE VI set1i(int x) { return VI{x, x, x, x}; }
MLXCEL_INLINE VF sqrt(VF a) {
  return VF{__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]),
            __builtin_sqrtf(a[3])};
}
// Where the baseline has no fused operation, product and sum are rounded apart.
MLXCEL_INLINE VF fma(VF a, VF b, VF c) {
#if defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}
MLXCEL_INLINE VF choose(VI mask, VF yes, VF no) {
  return as_float((as_int(yes) & mask) | (as_int(no) & ~mask));
}
// The second operand is returned when either is NaN.
MLXCEL_INLINE VF vmax(VF a, VF b) { return choose(a > b, a, b); }
MLXCEL_INLINE VF vmin(VF a, VF b) { return choose(a < b, a, b); }
MLXCEL_INLINE VF select_less(VF a, VF b, VF yes, VF no) { return choose(a < b, yes, no); }
MLXCEL_INLINE VF abs(VF a) { return as_float(as_int(a) & set1i(0x7FFFFFFF)); }
// The magnitude of a with the sign of b.
MLXCEL_INLINE VF copy_sign(VF a, VF b) {
  const VI magnitude = set1i(0x7FFFFFFF);
  return as_float((as_int(a) & magnitude) | (as_int(b) & ~magnitude));
}
// To nearest, for magnitudes below 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
MLXCEL_INLINE VF round(VF a) {
  const VF big = set1(12582912.0F);
  return (a + big) - big;
}

MLXCEL_INLINE VI loadi(const void* p) {
  VI v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MLXCEL_INLINE VI bit_and(VI a, VI b) { return a & b; }
MLXCEL_INLINE VI bit_or(VI a, VI b) { return a | b; }
MLXCEL_INLINE VI addi(VI a, VI b) { return a + b; }
MLXCEL_INLINE VI subi(VI a, VI b) { return a - b; }
MLXCEL_INLINE VI shl(VI a, int n) {
  return reinterpret_cast<VI>(reinterpret_cast<VU>(a) << static_cast<uint32_t>(n));
}
MLXCEL_INLINE VI shr(VI a, int n) {
  return reinterpret_cast<VI>(reinterpret_cast<VU>(a) >> static_cast<uint32_t>(n));
}
MLXCEL_INLINE VF to_float(VI a) { return __builtin_convertvector(a, VF); }
MLXCEL_INLINE VI to_int(VF a) { return __builtin_convertvector(round(a), VI); }

MLXCEL_INLINE VI load_u8(const uint8_t* p) { return VI{p[0], p[1], p[2], p[3]}; }
MLXCEL_INLINE VI load_s8(const uint8_t* p) {
  return VI{static_cast<int8_t>(p[0]), static_cast<int8_t>(p[1]), static_cast<int8_t>(p[2]),
            static_cast<int8_t>(p[3])};
}
MLXCEL_INLINE VF load_bf16(const uint16_t* p) {
  return as_float(shl(VI{p[0], p[1], p[2], p[3]}, 16));
}
MLXCEL_INLINE VF load_f16(const uint16_t* p) {
#if defined(__aarch64__)
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
  // The exponent is moved by a multiplication, which also makes subnormals right; infinities and
  // NaN get the largest exponent back.
  const VI bits = VI{p[0], p[1], p[2], p[3]};
  const VI magnitude = bits & set1i(0x7FFF);
  const VF scaled = as_float(shl(magnitude, 13)) * set1(0x1p112F);
  const VI special = (magnitude > set1i(0x7BFF)) & set1i(0x7F800000);
  return as_float(as_int(scaled) | special | shl(bits & set1i(0x8000), 16));
#endif
}
MLXCEL_INLINE void store_f16(uint16_t* p, VF v) {
#if defined(__aarch64__)
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
#else
  for (int i = 0; i < kLanes; ++i) p[i] = f32_to_f16(v[i]);
#endif
}

MLXCEL_INLINE float sum(VF v) { return (v[0] + v[2]) + (v[1] + v[3]); }
MLXCEL_INLINE float max_of(VF v) {
  const float a = v[0] > v[2] ? v[0] : v[2];
  const float b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}

// out[0..3] = the sums of a, b, c and d, each in the order of sum().
MLXCEL_INLINE void store_sums4(float* out, VF a, VF b, VF c, VF d) {
  const VF sums = {sum(a), sum(b), sum(c), sum(d)};
  store(out, sums);
}
