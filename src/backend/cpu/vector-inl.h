// Norms, element-wise ops, rotary embedding and type conversion in the primitives of one vector
// width.

template <class Op>
MLXCEL_INLINE void map1(const float* x, float* out, int64_t n, const Op& op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, op.of(load(x + i)));
  if (i < n) store_n(out + i, op.of(load_n(x + i, n - i)), n - i);
}
template <class Op>
MLXCEL_INLINE void map2(const float* a, const float* b, float* out, int64_t n, const Op& op) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, op.of(load(a + i), load(b + i)));
  if (i < n) store_n(out + i, op.of(load_n(a + i, n - i), load_n(b + i, n - i)), n - i);
}

struct AddOp {
  MLXCEL_INLINE VF of(VF a, VF b) { return add(a, b); }
};
struct MulOp {
  MLXCEL_INLINE VF of(VF a, VF b) { return mul(a, b); }
};
struct SiluMulOp {
  MLXCEL_INLINE VF of(VF gate, VF up) { return mul(silu(gate), up); }
};
struct SiluOp {
  MLXCEL_INLINE VF of(VF x) { return silu(x); }
};
struct ReluOp {
  MLXCEL_INLINE VF of(VF x) { return vmax(zero(), x); }
};
struct Relu2Op {
  MLXCEL_INLINE VF of(VF x) {
    const VF positive = vmax(zero(), x);
    return mul(positive, positive);
  }
};
struct TanhOp {
  MLXCEL_INLINE VF of(VF x) { return tanh(x); }
};
struct ExpOp {
  MLXCEL_INLINE VF of(VF x) { return exp(x); }
};
// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), Hendrycks and Gimpel 2016.
struct GeluTanhOp {
  MLXCEL_INLINE VF of(VF x) {
    const VF inner = mul(x, fma(mul(x, x), set1(0.044715F * 0.797884561F), set1(0.797884561F)));
    return mul(mul(set1(0.5F), x), add(set1(1.0F), tanh(inner)));
  }
};
// erf: Maclaurin's series up to x^19 below 1 (its rest is under 2e-8), above it the rational
// approximation of Abramowitz and Stegun 7.1.26 (under 1.5e-7).
MLXCEL_INLINE VF erf(VF x) {
  const VF a = abs(x);
  const VF s = mul(x, x);
  VF p = set1(-1.0F / 6894720);
  p = fma(p, s, set1(1.0F / 685440));
  p = fma(p, s, set1(-1.0F / 75600));
  p = fma(p, s, set1(1.0F / 9360));
  p = fma(p, s, set1(-1.0F / 1320));
  p = fma(p, s, set1(1.0F / 216));
  p = fma(p, s, set1(-1.0F / 42));
  p = fma(p, s, set1(0.1F));
  p = fma(p, s, set1(-1.0F / 3));
  p = fma(p, s, set1(1.0F));
  const VF small = mul(mul(p, a), set1(1.12837917F));
  const VF t = div(set1(1.0F), fma(a, set1(0.3275911F), set1(1.0F)));
  VF r = set1(1.061405429F);
  r = fma(r, t, set1(-1.453152027F));
  r = fma(r, t, set1(1.421413741F));
  r = fma(r, t, set1(-0.284496736F));
  r = fma(r, t, set1(0.254829592F));
  const VF large = sub(set1(1.0F), mul(mul(r, t), exp(sub(zero(), s))));
  return copy_sign(select_less(a, set1(1.0F), small, large), x);
}
struct GeluOp {
  MLXCEL_INLINE VF of(VF x) {
    return mul(mul(set1(0.5F), x), add(set1(1.0F), erf(mul(x, set1(0.707106781F)))));
  }
};
struct ScaleOp {
  VF factor;
  MLXCEL_METHOD VF of(VF x) const { return mul(x, factor); }
};
struct ScaleAddOp {
  VF factor;
  MLXCEL_METHOD VF of(VF x, VF sum) const { return fma(x, factor, sum); }
};
struct SigmoidOp {
  MLXCEL_INLINE VF of(VF x) { return sigmoid(x); }
};
struct ClampedSwigluOp {
  VF alpha, limit;
  // The operand order of the clamps keeps NaN.
  MLXCEL_METHOD VF of(VF gate, VF up) const {
    const VF g = vmin(limit, gate);
    const VF u = vmax(sub(zero(), limit), vmin(limit, up));
    return mul(mul(g, sigmoid(mul(alpha, g))), add(u, set1(1.0F)));
  }
};
struct ClampOp {
  VF low, high;
  MLXCEL_METHOD VF of(VF x) const { return vmin(high, vmax(low, x)); }
};
// e^x - 1 - x: Taylor's series up to x^9 near 0 (its rest is below 1e-9 of the first term there),
// where the difference would cancel.
MLXCEL_INLINE VF exp_rest(VF x) {
  VF p = set1(1.0F / 362880);
  p = fma(p, x, set1(1.0F / 40320));
  p = fma(p, x, set1(1.0F / 5040));
  p = fma(p, x, set1(1.0F / 720));
  p = fma(p, x, set1(1.0F / 120));
  p = fma(p, x, set1(1.0F / 24));
  p = fma(p, x, set1(1.0F / 6));
  p = fma(p, x, set1(0.5F));
  const VF near = mul(mul(p, x), x);
  const VF far = sub(sub(exp(x), set1(1.0F)), x);
  return select_less(abs(x), set1(0.7F), near, far);
}
struct XieluOp {
  VF alpha_p, alpha_n, beta, eps;
  MLXCEL_METHOD VF of(VF x) const {
    const VF above = mul(x, fma(alpha_p, x, beta));
    // e^eps - 1 - x for the few x between eps and 0.
    const VF cut = vmin(eps, x);
    const VF below = fma(alpha_n, add(exp_rest(cut), sub(cut, x)), mul(beta, x));
    return select_less(zero(), x, above, below);
  }
};
struct SoftcapOp {
  VF cap;
  MLXCEL_METHOD VF of(VF x) const { return mul(cap, tanh(div(x, cap))); }
};

void add_rows(const float* a, const float* b, float* out, int64_t n) {
  map2(a, b, out, n, AddOp{});
}
void mul_rows(const float* a, const float* b, float* out, int64_t n) {
  map2(a, b, out, n, MulOp{});
}
void silu_mul_rows(const float* gate, const float* up, float* out, int64_t n) {
  map2(gate, up, out, n, SiluMulOp{});
}
void scale_row(const float* x, float factor, float* out, int64_t n) {
  map1(x, out, n, ScaleOp{set1(factor)});
}
void scale_add_row(const float* x, float factor, float* out, int64_t n) {
  map2(x, out, out, n, ScaleAddOp{set1(factor)});
}
void sigmoid_row(const float* x, float* out, int64_t n) { map1(x, out, n, SigmoidOp{}); }
void clamped_swiglu_row(const float* gate, const float* up, float alpha, float limit, float* out,
                        int64_t n) {
  map2(gate, up, out, n, ClampedSwigluOp{set1(alpha), set1(limit)});
}
void softcap_row(const float* x, float cap, float* out, int64_t n) {
  map1(x, out, n, SoftcapOp{set1(cap)});
}
void clamp_row(const float* x, float limit, float* out, int64_t n) {
  map1(x, out, n, ClampOp{set1(-limit), set1(limit)});
}
void xielu_row(const float* x, const ops::XieluOptions& o, float* out, int64_t n) {
  map1(x, out, n, XieluOp{set1(o.alpha_p), set1(o.alpha_n), set1(o.beta), set1(o.eps)});
}
void activate_row(const float* x, ops::Activation kind, float* out, int64_t n) {
  switch (kind) {
    case ops::Activation::Silu:
      return map1(x, out, n, SiluOp{});
    case ops::Activation::Gelu:
      return map1(x, out, n, GeluOp{});
    case ops::Activation::GeluTanh:
      return map1(x, out, n, GeluTanhOp{});
    case ops::Activation::Relu:
      return map1(x, out, n, ReluOp{});
    case ops::Activation::Relu2:
      return map1(x, out, n, Relu2Op{});
    case ops::Activation::Tanh:
      return map1(x, out, n, TanhOp{});
    case ops::Activation::Exp:
      return map1(x, out, n, ExpOp{});
  }
}

// Sum of f(x) over a row: four vectors at a time, then one, then the padded rest.
template <class Op>
MLXCEL_INLINE float reduce(const float* x, int64_t n, const Op& op) {
  VF s[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    MLXCEL_UNROLL for (int j = 0; j < 4; ++j) s[j] = op.into(load(x + i + j * kLanes), s[j]);
  }
  for (; i + kLanes <= n; i += kLanes) s[0] = op.into(load(x + i), s[0]);
  float rest = 0;
  for (; i < n; ++i) rest += op.scalar(x[i]);
  return sum(add(add(s[0], s[1]), add(s[2], s[3]))) + rest;
}
struct SquareSum {
  MLXCEL_INLINE VF into(VF x, VF s) { return fma(x, x, s); }
  MLXCEL_INLINE float scalar(float x) { return x * x; }
};
struct PlainSum {
  MLXCEL_INLINE VF into(VF x, VF s) { return add(x, s); }
  MLXCEL_INLINE float scalar(float x) { return x; }
};
struct VarianceSum {
  float mean;
  MLXCEL_METHOD VF into(VF x, VF s) const {
    const VF d = sub(x, set1(mean));
    return fma(d, d, s);
  }
  MLXCEL_METHOD float scalar(float x) const { return (x - mean) * (x - mean); }
};

// (x - shift) * factor * (gain + offset) + bias.
MLXCEL_INLINE void normalize(const NormRow& r, const float* x, float shift, float factor) {
  const VF vs = set1(shift);
  const VF vf = set1(factor);
  for (int64_t i = 0; i < r.n; i += kLanes) {
    const int64_t n = r.n - i;
    const bool whole = n >= kLanes;
    VF y = mul(sub(whole ? load(x + i) : load_n(x + i, n), vs), vf);
    if (r.gain != nullptr) {
      y = mul(y, add(whole ? load(r.gain + i) : load_n(r.gain + i, n), set1(r.offset)));
    }
    if (r.bias != nullptr) y = add(y, whole ? load(r.bias + i) : load_n(r.bias + i, n));
    if (whole) {
      store(r.out + i, y);
    } else {
      store_n(r.out + i, y, n);
    }
  }
}

void rms_norm_row(const NormRow& r) {
  const float* x = r.x;
  if (r.delta != nullptr) {
    add_rows(r.x, r.delta, r.sum, r.n);
    x = r.sum;
  }
  const float mean = reduce(x, r.n, SquareSum{}) / static_cast<float>(r.n);
  normalize(r, x, 0.0F, 1.0F / __builtin_sqrtf(mean + r.eps));
}

void layer_norm_row(const NormRow& r) {
  const float mean = reduce(r.x, r.n, PlainSum{}) / static_cast<float>(r.n);
  const float variance = reduce(r.x, r.n, VarianceSum{mean}) / static_cast<float>(r.n);
  normalize(r, r.x, mean, 1.0F / __builtin_sqrtf(variance + r.eps));
}

// The angle is a float; its reduction to [-pi/4, pi/4] is done in double, where the error of the
// largest angle (2^17 rad) stays below 1e-10. Then Taylor's series, whose rests are below 2e-8.
void rope_angles_row(int32_t position, const float* inv_freq, int64_t half, float factor,
                     float* cosines, float* sines) {
  const auto p = static_cast<float>(position);
  constexpr double kBig = 6755399441055744.0;  // 1.5 * 2^52: leaves no bits for a fraction
  for (int64_t i = 0; i < half; ++i) {
    const float angle = p * inv_freq[i];
    const double turns = static_cast<double>(angle) * 0.63661977236758134308;
    const double quadrant = (turns + kBig) - kBig;
    const auto x =
        static_cast<float>(static_cast<double>(angle) - quadrant * 1.57079632679489661923);
    const float s = x * x;
    float sine = 2.75573192e-6F;
    sine = sine * s - 1.98412698e-4F;
    sine = sine * s + 8.33333333e-3F;
    sine = sine * s - 1.66666667e-1F;
    sine = sine * s * x + x;
    float cosine = 2.48015873e-5F;
    cosine = cosine * s - 1.38888889e-3F;
    cosine = cosine * s + 4.16666667e-2F;
    cosine = cosine * s * s - 0.5F * s + 1.0F;
    const auto q = static_cast<int64_t>(quadrant) & 3;
    const float c = (q & 1) != 0 ? sine : cosine;
    const float n = (q & 1) != 0 ? cosine : sine;
    cosines[i] = (q == 1 || q == 2 ? -c : c) * factor;
    sines[i] = (q >= 2 ? -n : n) * factor;
  }
}

void rope_rotate_head(float* x, const float* cosines, const float* sines, int64_t half,
                      bool interleaved) {
  int64_t i = 0;
  if (!interleaved) {
    for (; i + kLanes <= half; i += kLanes) {
      const VF a = load(x + i);
      const VF b = load(x + half + i);
      const VF c = load(cosines + i);
      const VF s = load(sines + i);
      store(x + i, sub(mul(a, c), mul(b, s)));
      store(x + half + i, add(mul(b, c), mul(a, s)));
    }
  }
  const int64_t step = interleaved ? 2 : 1;
  const int64_t apart = interleaved ? 1 : half;
  for (; i < half; ++i) {
    float* p = x + i * step;
    const float a = p[0];
    const float b = p[apart];
    p[0] = a * cosines[i] - b * sines[i];
    p[apart] = b * cosines[i] + a * sines[i];
  }
}

void narrow_row(DType type, const float* in, void* out, int64_t n) {
  if (type == DType::F32) {
    __builtin_memcpy(out, in, static_cast<size_t>(n) * 4);
    return;
  }
  auto* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (type == DType::F16) {
      store_f16(to + i, load(in + i));
    } else {
      store_bf16(to + i, load(in + i));
    }
  }
  for (; i < n; ++i) to[i] = type == DType::F16 ? f32_to_f16(in[i]) : f32_to_bf16(in[i]);
}

void widen_row(DType type, const void* in, float* out, int64_t n) {
  if (type == DType::F32) {
    __builtin_memcpy(out, in, static_cast<size_t>(n) * 4);
    return;
  }
  const auto* from = static_cast<const uint16_t*>(in);
  int64_t i = 0;
  if (type == DType::F16) {
    for (; i + kLanes <= n; i += kLanes) store(out + i, load_f16(from + i));
    for (; i < n; ++i) out[i] = f16_to_f32(from[i]);
  } else {
    for (; i + kLanes <= n; i += kLanes) store(out + i, load_bf16(from + i));
    for (; i < n; ++i) out[i] = bf16_to_f32(from[i]);
  }
}
