// Recurrent ops in the primitives of one vector width. A kernel handles J vectors of lanes at once
// (their sums hide the latency of the fused products) or one vector of `n` lanes at the end.

inline constexpr int kGroup = 4;

template <bool kTail>
MLXCEL_INLINE VF get(const float* p, int j, int64_t n) {
  return kTail ? load_n(p, n) : load(p + j * kLanes);
}
template <bool kTail>
MLXCEL_INLINE void put(float* p, int j, VF v, int64_t n) {
  if (kTail) {
    store_n(p, v, n);
  } else {
    store(p + j * kLanes, v);
  }
}
MLXCEL_INLINE float exp1(float x) {
  alignas(64) float buffer[kLanes];
  store(buffer, exp(set1(x)));
  return buffer[0];
}
#define MLXCEL_EACH MLXCEL_UNROLL for (int j = 0; j < J; ++j)

// K::run<J, tail>(args, segment, head, first lane, lanes) over [begin, end).
template <class K, class Args>
MLXCEL_INLINE void over_lanes(const Args& a, const ops::StateSegment& s, int64_t head,
                              int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kGroup * kLanes <= end; i += kGroup * kLanes) {
    K::template run<kGroup, false>(a, s, head, i, 0);
  }
  for (; i + kLanes <= end; i += kLanes) K::template run<1, false>(a, s, head, i, 0);
  if (i < end) K::template run<1, true>(a, s, head, i, end - i);
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|); with e in (0, 1], log1p(e) = 2 atanh(e / (2 + e)),
// whose series in s^2 <= 1/9 is cut where its rest is below 2^-27.
MLXCEL_INLINE VF softplus(VF x) {
  const VF e = exp(sub(zero(), abs(x)));
  const VF s = div(e, add(set1(2.0F), e));
  const VF q = mul(s, s);
  VF p = set1(2.0F / 15);
  p = fma(p, q, set1(2.0F / 13));
  p = fma(p, q, set1(2.0F / 11));
  p = fma(p, q, set1(2.0F / 9));
  p = fma(p, q, set1(2.0F / 7));
  p = fma(p, q, set1(2.0F / 5));
  p = fma(p, q, set1(2.0F / 3));
  p = fma(p, q, set1(2.0F));
  return fma(p, s, vmax(zero(), x));
}

// 1 - e^y for y <= 0 without cancellation: Taylor's series above -0.5.
MLXCEL_INLINE VF one_minus_exp(VF y) {
  VF p = set1(1.0F / 40320);
  p = fma(p, y, set1(1.0F / 5040));
  p = fma(p, y, set1(1.0F / 720));
  p = fma(p, y, set1(1.0F / 120));
  p = fma(p, y, set1(1.0F / 24));
  p = fma(p, y, set1(1.0F / 6));
  p = fma(p, y, set1(0.5F));
  p = fma(p, y, set1(1.0F));
  const VF small = sub(zero(), mul(p, y));
  return select_less(y, set1(-0.5F), sub(set1(1.0F), exp(y)), small);
}

struct Conv {
  // Input `i` of the remembered ones followed by the new ones.
  static MLXCEL_METHOD const float* line(const ops::ConvArgs& a, const ops::StateSegment& s,
                                         const float* state, int64_t i) {
    const int64_t kept = a.taps - 1;
    return i < kept ? state + i * a.channels : a.x.row(s.row + i - kept);
  }
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::ConvArgs& a, const ops::StateSegment& s, int64_t,
                                int64_t c, int64_t n) {
    const int64_t kept = a.taps - 1;
    const int64_t wide = a.outputs * a.channels;
    float* state = a.state + s.state_row * kept * a.channels;
    for (int64_t m = 0; m < a.outputs; ++m) {
      const int64_t o = m * a.channels + c;
      for (int64_t t = 0; t < s.q_len; ++t) {
        VF sum[J];
        MLXCEL_EACH sum[j] = a.bias != nullptr ? get<kTail>(a.bias + o, j, n) : zero();
        for (int64_t tap = 0; tap < a.taps; ++tap) {
          const float* x = line(a, s, state, t + tap) + c;
          const float* w = a.weight + tap * wide + o;
          MLXCEL_EACH sum[j] = fma(get<kTail>(w, j, n), get<kTail>(x, j, n), sum[j]);
        }
        float* out = a.out + (s.row + t) * wide + o;
        MLXCEL_EACH put<kTail>(out, j, a.silu ? silu(sum[j]) : sum[j], n);
      }
    }
    for (int64_t i = 0; i < kept; ++i) {
      const float* from = line(a, s, state, s.q_len + i) + c;
      MLXCEL_EACH put<kTail>(state + i * a.channels + c, j, get<kTail>(from, j, n), n);
    }
  }
};

struct Selective {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::SelectiveScanArgs& a, const ops::StateSegment& s,
                                int64_t, int64_t c, int64_t n) {
    float* state = a.state + s.state_row * a.states * a.channels + c;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      VF dt[J], dx[J], y[J];
      MLXCEL_EACH {
        const VF x = get<kTail>(a.x.row(t) + c, j, n);
        dt[j] = get<kTail>(a.dt.row(t) + c, j, n);
        dx[j] = mul(dt[j], x);
        y[j] = mul(get<kTail>(a.d + c, j, n), x);
      }
      for (int64_t i = 0; i < a.states; ++i) {
        const VF b = set1(a.b.row(t)[i]);
        const VF read = set1(a.c.row(t)[i]);
        float* cell = state + i * a.channels;
        const float* rate = a.a + i * a.channels + c;
        MLXCEL_EACH {
          const VF decay = exp(mul(dt[j], get<kTail>(rate, j, n)));
          const VF h = fma(decay, get<kTail>(cell, j, n), mul(dx[j], b));
          put<kTail>(cell, j, h, n);
          y[j] = fma(h, read, y[j]);
        }
      }
      MLXCEL_EACH put<kTail>(a.out + t * a.channels + c, j, y[j], n);
    }
  }
};

struct Ssd {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::SsdArgs& a, const ops::StateSegment& s, int64_t head,
                                int64_t p, int64_t n) {
    float* state = a.state + (s.state_row * a.heads + head) * a.states * a.head_dim + p;
    const int64_t group = head / (a.heads / a.groups) * a.states;
    const int64_t at = head * a.head_dim + p;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      const float dt = a.dt.row(t)[head];
      const VF decay = set1(exp1(dt * a.a[head]));
      VF dx[J], y[J];
      MLXCEL_EACH {
        const VF x = get<kTail>(a.x.row(t) + at, j, n);
        dx[j] = mul(set1(dt), x);
        y[j] = mul(set1(a.d[head]), x);
      }
      const float* b = a.b.row(t) + group;
      const float* c = a.c.row(t) + group;
      for (int64_t i = 0; i < a.states; ++i) {
        float* cell = state + i * a.head_dim;
        MLXCEL_EACH {
          const VF h = fma(decay, get<kTail>(cell, j, n), mul(dx[j], set1(b[i])));
          put<kTail>(cell, j, h, n);
          y[j] = fma(h, set1(c[i]), y[j]);
        }
      }
      MLXCEL_EACH put<kTail>(a.out + t * a.heads * a.head_dim + at, j, y[j], n);
    }
  }
};

struct Delta {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::DeltaArgs& a, const ops::StateSegment& s, int64_t head,
                                int64_t v, int64_t n) {
    float* state = a.state + (s.state_row * a.heads + head) * a.k_dim * a.v_dim + v;
    const int64_t key = head / (a.heads / a.key_heads) * a.k_dim;
    const int64_t at = head * a.v_dim + v;
    const int64_t step = a.decay_by_element ? 1 : 0;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      const float* k = a.k.row(t) + key;
      const float* q = a.q.row(t) + key;
      const float* decay = a.decay.row(t) + (a.decay_by_element ? head * a.k_dim : head);
      VF read[J], change[J], y[J];
      MLXCEL_EACH read[j] = zero();
      for (int64_t i = 0; i < a.k_dim; ++i) {
        float* cell = state + i * a.v_dim;
        MLXCEL_EACH {
          const VF h = mul(get<kTail>(cell, j, n), set1(decay[i * step]));
          put<kTail>(cell, j, h, n);
          read[j] = fma(h, set1(k[i]), read[j]);
        }
      }
      const VF beta = set1(a.beta.row(t)[head]);
      MLXCEL_EACH {
        change[j] = mul(sub(get<kTail>(a.v.row(t) + at, j, n), read[j]), beta);
        y[j] = zero();
      }
      for (int64_t i = 0; i < a.k_dim; ++i) {
        float* cell = state + i * a.v_dim;
        MLXCEL_EACH {
          const VF h = fma(set1(k[i]), change[j], get<kTail>(cell, j, n));
          put<kTail>(cell, j, h, n);
          y[j] = fma(h, set1(q[i]), y[j]);
        }
      }
      MLXCEL_EACH put<kTail>(a.out + t * a.heads * a.v_dim + at, j, y[j], n);
    }
  }
};

struct Rwkv7 {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::Rwkv7Args& a, const ops::StateSegment& s, int64_t head,
                                int64_t v, int64_t n) {
    float* state = a.state + (s.state_row * a.heads + head) * a.dim * a.dim + v;
    const int64_t at = head * a.dim;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      const float* remove = a.a.row(t) + at;
      const float* replace = a.b.row(t) + at;
      const float* w = a.w.row(t) + at;
      const float* k = a.k.row(t) + at;
      const float* r = a.r.row(t) + at;
      VF read[J], value[J], y[J];
      MLXCEL_EACH {
        read[j] = zero();
        y[j] = zero();
        value[j] = get<kTail>(a.v.row(t) + at + v, j, n);
      }
      for (int64_t i = 0; i < a.dim; ++i) {
        const float* cell = state + i * a.dim;
        MLXCEL_EACH read[j] = fma(get<kTail>(cell, j, n), set1(remove[i]), read[j]);
      }
      for (int64_t i = 0; i < a.dim; ++i) {
        float* cell = state + i * a.dim;
        MLXCEL_EACH {
          VF h = mul(get<kTail>(cell, j, n), set1(w[i]));
          h = fma(value[j], set1(k[i]), h);
          h = fma(read[j], set1(replace[i]), h);
          put<kTail>(cell, j, h, n);
          y[j] = fma(h, set1(r[i]), y[j]);
        }
      }
      MLXCEL_EACH put<kTail>(a.out + t * a.heads * a.dim + at + v, j, y[j], n);
    }
  }
};

struct RgLru {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::RgLruArgs& a, const ops::StateSegment& s, int64_t,
                                int64_t c, int64_t n) {
    float* state = a.state + s.state_row * a.width + c;
    for (int64_t t = s.row; t < s.row + s.q_len; ++t) {
      const bool first = a.positions[t] == 0;
      MLXCEL_EACH {
        const VF log_decay =
            mul(get<kTail>(a.factor + c, j, n), sigmoid(get<kTail>(a.recurrence.row(t) + c, j, n)));
        const VF decay = first ? zero() : exp(log_decay);
        const VF root = first ? set1(1.0F) : sqrt(one_minus_exp(add(log_decay, log_decay)));
        const VF gate = mul(root, sigmoid(get<kTail>(a.input.row(t) + c, j, n)));
        const VF h =
            fma(decay, get<kTail>(state, j, n), mul(gate, get<kTail>(a.x.row(t) + c, j, n)));
        put<kTail>(state, j, h, n);
        put<kTail>(a.out + t * a.width + c, j, h, n);
      }
    }
  }
};

void conv(const ops::ConvArgs& a, const ops::StateSegment& s, int64_t begin, int64_t end) {
  over_lanes<Conv>(a, s, 0, begin, end);
}
void selective(const ops::SelectiveScanArgs& a, const ops::StateSegment& s, int64_t begin,
               int64_t end) {
  over_lanes<Selective>(a, s, 0, begin, end);
}
void rg_lru(const ops::RgLruArgs& a, const ops::StateSegment& s, int64_t begin, int64_t end) {
  over_lanes<RgLru>(a, s, 0, begin, end);
}
void ssd(const ops::SsdArgs& a, const ops::StateSegment& s, int64_t head, int64_t begin,
         int64_t end) {
  over_lanes<Ssd>(a, s, head, begin, end);
}
void delta(const ops::DeltaArgs& a, const ops::StateSegment& s, int64_t head, int64_t begin,
           int64_t end) {
  over_lanes<Delta>(a, s, head, begin, end);
}
void rwkv7(const ops::Rwkv7Args& a, const ops::StateSegment& s, int64_t head, int64_t begin,
           int64_t end) {
  over_lanes<Rwkv7>(a, s, head, begin, end);
}

struct SoftplusColumns {
  static MLXCEL_METHOD VF of(const ops::ColumnArgs& a, VF x, VF bias, VF) {
    return vmin(set1(a.high), vmax(set1(a.low), softplus(add(x, bias))));
  }
};
struct DecayColumns {
  static MLXCEL_METHOD VF of(const ops::ColumnArgs&, VF x, VF bias, VF factor) {
    return exp(mul(factor, softplus(add(x, bias))));
  }
};
struct ScaleColumns {
  static MLXCEL_METHOD VF of(const ops::ColumnArgs&, VF x, VF bias, VF factor) {
    return fma(x, factor, bias);
  }
};

template <class Op>
MLXCEL_INLINE void columns(const ops::ColumnArgs& a, int64_t token) {
  const float* x = a.x.row(token);
  float* out = a.out + token * a.dim;
  int64_t i = 0;
  for (; i + kLanes <= a.dim; i += kLanes) {
    const VF bias = a.bias != nullptr ? load(a.bias + i) : zero();
    const VF factor = a.factor != nullptr ? load(a.factor + i) : set1(1.0F);
    store(out + i, Op::of(a, load(x + i), bias, factor));
  }
  if (i == a.dim) return;
  const int64_t n = a.dim - i;
  const VF bias = a.bias != nullptr ? load_n(a.bias + i, n) : zero();
  const VF factor = a.factor != nullptr ? load_n(a.factor + i, n) : set1(1.0F);
  store_n(out + i, Op::of(a, load_n(x + i, n), bias, factor), n);
}
void softplus_row(const ops::ColumnArgs& a, int64_t token) { columns<SoftplusColumns>(a, token); }
void decay_row(const ops::ColumnArgs& a, int64_t token) { columns<DecayColumns>(a, token); }
void scale_columns_row(const ops::ColumnArgs& a, int64_t token) { columns<ScaleColumns>(a, token); }

struct BlockLinear {
  template <int J, bool kTail>
  static MLXCEL_METHOD void run(const ops::BlockLinearArgs& a, const ops::StateSegment& s,
                                int64_t head, int64_t o, int64_t n) {
    const float* x = a.x.row(s.row) + head * a.in;
    const float* w = a.w + head * a.in * a.out_dim + o;
    VF sum[J];
    MLXCEL_EACH {
      sum[j] = a.bias != nullptr ? get<kTail>(a.bias + head * a.out_dim + o, j, n) : zero();
    }
    for (int64_t i = 0; i < a.in; ++i) {
      MLXCEL_EACH sum[j] = fma(get<kTail>(w + i * a.out_dim, j, n), set1(x[i]), sum[j]);
    }
    float* out = a.out + (s.row * a.heads + head) * a.out_dim + o;
    MLXCEL_EACH put<kTail>(out, j, sum[j], n);
  }
};
void block_linear(const ops::BlockLinearArgs& a, int64_t token, int64_t head) {
  const ops::StateSegment at{static_cast<int32_t>(token), 1, 0};
  over_lanes<BlockLinear>(a, at, head, 0, a.out_dim);
}

void head_dot_scale(const ops::HeadDotArgs& a, int64_t token) {
  for (int64_t h = 0; h < a.heads; ++h) {
    const float* x = a.a.row(token) + h * a.dim;
    const float* y = a.b.row(token) + h * a.dim;
    VF total = zero();
    int64_t i = 0;
    for (; i + kLanes <= a.dim; i += kLanes) total = fma(load(x + i), load(y + i), total);
    if (i < a.dim) total = fma(load_n(x + i, a.dim - i), load_n(y + i, a.dim - i), total);
    const VF dot = set1(sum(total));
    const float* v = a.v.row(token) + h * a.dim;
    float* out = a.out + (token * a.heads + h) * a.dim;
    for (i = 0; i + kLanes <= a.dim; i += kLanes) store(out + i, mul(load(v + i), dot));
    if (i < a.dim) store_n(out + i, mul(load_n(v + i, a.dim - i), dot), a.dim - i);
  }
}

constexpr RecurrentKernels kRecurrentTable = {
    .block = kGroup * kLanes,
    .conv = conv,
    .selective = selective,
    .rg_lru = rg_lru,
    .ssd = ssd,
    .delta = delta,
    .rwkv7 = rwkv7,
    .softplus = softplus_row,
    .softplus_decay = decay_row,
    .scale_columns = scale_columns_row,
    .block_linear = block_linear,
    .head_dot_scale = head_dot_scale,
};
#undef MLXCEL_EACH
