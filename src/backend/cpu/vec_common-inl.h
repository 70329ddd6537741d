// What every vector width shares, written in the primitives of the width.

MLXCEL_INLINE VF load_n(const float* p, int64_t n) {
  alignas(64) float buffer[kLanes] = {};
  __builtin_memcpy(buffer, p, static_cast<size_t>(n) * 4);
  return load(buffer);
}
MLXCEL_INLINE void store_n(float* p, VF v, int64_t n) {
  alignas(64) float buffer[kLanes];
  store(buffer, v);
  __builtin_memcpy(p, buffer, static_cast<size_t>(n) * 4);
}

// Round to nearest even; NaN stays NaN.
MLXCEL_INLINE void store_bf16(uint16_t* p, VF v) {
  alignas(64) float buffer[kLanes];
  store(buffer, v);
  for (int i = 0; i < kLanes; ++i) p[i] = f32_to_bf16(buffer[i]);
}

// e^x within 2 units of the last place: x = n ln 2 + r, |r| <= ln 2 / 2, Taylor's series of e^r to
// the seventh power (its rest is below 2^-27), the power of two applied in two steps so that
// subnormal results round once.
MLXCEL_INLINE VF exp(VF x) {
  const VF low = set1(-104.0F);
  const VF high = set1(88.73F);  // e^88.73 is above the largest float
  const VF clamped = vmin(vmax(low, x), high);
  const VF n = round(mul(clamped, set1(1.44269504F)));
  VF r = fma(n, set1(-0.693145752F), clamped);  // ln 2 in two parts; the first has 15 bits
  r = fma(n, set1(-1.42860677e-6F), r);
  VF p = set1(1.0F / 5040);
  p = fma(p, r, set1(1.0F / 720));
  p = fma(p, r, set1(1.0F / 120));
  p = fma(p, r, set1(1.0F / 24));
  p = fma(p, r, set1(1.0F / 6));
  p = fma(p, r, set1(0.5F));
  p = fma(p, r, set1(1.0F));
  p = fma(p, r, set1(1.0F));
  const VF first = round(mul(n, set1(0.5F)));
  const VF second = sub(n, first);
  p = mul(p, as_float(shl(addi(to_int(first), set1i(127)), 23)));
  p = mul(p, as_float(shl(addi(to_int(second), set1i(127)), 23)));
  // x - x is NaN for NaN and infinities, so only NaN needs to be put back.
  p = select_less(x, low, zero(), p);
  return select_less(abs(x), set1(__builtin_inff()), p,
                     select_less(x, zero(), zero(), mul(x, set1(__builtin_inff()))));
}

// The same for x <= 0 within 3 units of the last place, the cheaper way of a softmax: below -87 the
// result is 0, so that it is never subnormal.
MLXCEL_INLINE VF exp_nonpositive(VF x) {
  const VF low = set1(-87.0F);
  const VF clamped = vmax(x, low);
  const VF n = round(mul(clamped, set1(1.44269504F)));
  VF r = fma(n, set1(-0.693145752F), clamped);
  r = fma(n, set1(-1.42860677e-6F), r);
  VF p = set1(1.0F / 720);
  p = fma(p, r, set1(1.0F / 120));
  p = fma(p, r, set1(1.0F / 24));
  p = fma(p, r, set1(1.0F / 6));
  p = fma(p, r, set1(0.5F));
  p = fma(p, r, set1(1.0F));
  p = fma(p, r, set1(1.0F));
  return select_less(x, low, zero(), as_float(addi(as_int(p), shl(to_int(n), 23))));
}

MLXCEL_INLINE VF sigmoid(VF x) { return div(set1(1.0F), add(set1(1.0F), exp(sub(zero(), x)))); }
MLXCEL_INLINE VF silu(VF x) { return div(x, add(set1(1.0F), exp(sub(zero(), x)))); }

// tanh within 3 units of the last place. Small arguments take the odd series (A&S 4.5.64, its rest
// is below 2^-26 at 0.5 with the terms used); larger ones (1 - e) / (1 + e), e = exp(-2 |x|).
MLXCEL_INLINE VF tanh(VF x) {
  const VF a = abs(x);
  const VF e = exp(mul(a, set1(-2.0F)));
  const VF large = div(sub(set1(1.0F), e), add(set1(1.0F), e));
  const VF s = mul(a, a);
  VF p = set1(-1.45583438e-3F);
  p = fma(p, s, set1(21844.0F / 6081075));
  p = fma(p, s, set1(-1382.0F / 155925));
  p = fma(p, s, set1(62.0F / 2835));
  p = fma(p, s, set1(-17.0F / 315));
  p = fma(p, s, set1(2.0F / 15));
  p = fma(p, s, set1(-1.0F / 3));
  const VF small = fma(mul(p, s), a, a);
  return copy_sign(select_less(a, set1(0.5F), small, large), x);
}
