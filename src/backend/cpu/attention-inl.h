// One piece of attention in the primitives of one vector width. A score is summed over the lanes of
// a vector, then across them; the value sum runs over positions in order. So neither depends on how
// many queries are worked on together.

// scores[i][j] = q[i] . keys[j], not yet scaled, for kRows queries and keys [0, count), count a
// multiple of 4.
template <int kRows, int kKeys>
MLXCEL_INLINE void score_block(const float* q, const float* keys, int64_t k_pad, float* scores) {
  VF s[kRows][kKeys];
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int j = 0; j < kKeys; ++j) s[r][j] = zero();
  }
  for (int64_t d = 0; d < k_pad; d += kLanes) {
    VF qv[kRows];
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) qv[r] = load(q + r * k_pad + d);
    MLXCEL_UNROLL for (int j = 0; j < kKeys; ++j) {
      const VF kv = load(keys + j * k_pad + d);
      MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) s[r][j] = fma(qv[r], kv, s[r][j]);
    }
  }
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int j = 0; j < kKeys; j += 4) {
      store_sums4(scores + r * kPiece + j, s[r][j], s[r][j + 1], s[r][j + 2], s[r][j + 3]);
    }
  }
}

template <int kRows, int kKeys>
MLXCEL_INLINE void score_rows(const PieceArgs& a, int64_t row, int64_t count) {
  for (int64_t j = 0; j < count; j += kKeys) {
    score_block<kRows, kKeys>(a.q + row * a.k_pad, a.keys + j * a.k_pad, a.k_pad,
                              a.scores + row * kPiece + j);
  }
}

void score_piece(const PieceArgs& a) {
  const int64_t count = (a.end + 7) / 8 * 8;
  int64_t row = 0;
  for (; row + 3 <= a.state.count; row += 3) score_rows<3, 4>(a, row, count);
  if (a.state.count - row == 2) score_rows<2, 4>(a, row, count);
  if (a.state.count - row == 1) score_rows<1, 8>(a, row, count);
}

// Turns the scores of query i into exponentials against its running maximum; updates maximum and
// sum. Returns the factor for what was summed before.
MLXCEL_INLINE float softmax_row(const PieceArgs& a, int64_t i, int64_t count) {
  float* s = a.scores + i * kPiece;
  const int64_t low = a.low[i];
  const int64_t high = a.high[i];
  const float nothing = -__builtin_inff();
  const VF factor = set1(a.scale);
  VF best = set1(nothing);
  for (int64_t j = 0; j < count; j += kLanes) {
    VF v = mul(load(s + j), factor);
    if (a.softcap > 0.0F) v = mul(set1(a.softcap), tanh(div(v, set1(a.softcap))));
    store(s + j, v);
    if (j < low || j + kLanes > high) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        if (j + lane < low || j + lane >= high) s[j + lane] = nothing;
      }
      v = load(s + j);
    }
    best = vmax(best, v);
  }
  const float before = a.state.maxima[i];
  float now = max_of(best);
  if (before > now) now = before;
  // Nothing seen yet: any finite maximum gives exponentials of zero.
  const float base = now == nothing ? 0.0F : now;
  VF total = zero();
  for (int64_t j = 0; j < count; j += kLanes) {
    const VF e = exp_nonpositive(sub(load(s + j), set1(base)));
    store(s + j, e);
    total = add(total, e);
  }
  alignas(64) float rescale[kLanes];
  store(rescale, exp(set1(before == nothing ? 0.0F : before - base)));
  a.state.maxima[i] = now;
  a.state.sums[i] = a.state.sums[i] * rescale[0] + sum(total);
  return rescale[0];
}

// values[i] = values[i] * factor[i] + sum over positions [0, end) of scores[i][j] * v[j].
template <int kRows, int kVecsAtOnce>
MLXCEL_INLINE void value_block(const PieceArgs& a, int64_t row, int64_t column,
                               const float* factors) {
  const int64_t v_pad = a.state.v_pad;
  float* out = a.state.values + row * v_pad + column;
  VF s[kRows][kVecsAtOnce];
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecsAtOnce; ++v) {
      s[r][v] = mul(load(out + r * v_pad + v * kLanes), set1(factors[row + r]));
    }
  }
  const float* values = a.values + column;
  const float* p = a.scores + row * kPiece;
  for (int64_t j = 0; j < a.end; ++j, values += v_pad) {
    VF x[kVecsAtOnce];
    MLXCEL_UNROLL for (int v = 0; v < kVecsAtOnce; ++v) x[v] = load(values + v * kLanes);
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const VF pr = set1(p[r * kPiece + j]);
      MLXCEL_UNROLL for (int v = 0; v < kVecsAtOnce; ++v) s[r][v] = fma(pr, x[v], s[r][v]);
    }
  }
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecsAtOnce; ++v) {
      store(out + r * v_pad + v * kLanes, s[r][v]);
    }
  }
}

template <int kRows, int kVecsAtOnce>
MLXCEL_INLINE void value_rows(const PieceArgs& a, int64_t row, const float* factors) {
  int64_t column = 0;
  for (; column + kVecsAtOnce * kLanes <= a.state.v_pad; column += kVecsAtOnce * kLanes) {
    value_block<kRows, kVecsAtOnce>(a, row, column, factors);
  }
  for (; column < a.state.v_pad; column += kLanes) value_block<kRows, 1>(a, row, column, factors);
}

void attend_piece(const PieceArgs& a) {
  score_piece(a);
  constexpr int64_t kMost = 64;  // queries whose factors fit the stack
  float factors[kMost];
  const int64_t count = (a.end + kLanes - 1) / kLanes * kLanes;
  for (int64_t first = 0; first < a.state.count; first += kMost) {
    const int64_t n = a.state.count - first < kMost ? a.state.count - first : kMost;
    PieceArgs part = a;
    part.scores += first * kPiece;
    part.low += first;
    part.high += first;
    part.state.maxima += first;
    part.state.sums += first;
    part.state.values += first * a.state.v_pad;
    part.state.count = n;
    for (int64_t i = 0; i < n; ++i) factors[i] = softmax_row(part, i, count);
    int64_t row = 0;
    for (; row + 3 <= n; row += 3) value_rows<3, 4>(part, row, factors);
    if (n - row == 2) value_rows<2, 4>(part, row, factors);
    if (n - row == 1) value_rows<1, 8>(part, row, factors);
  }
}

void merge_states(const SoftmaxState& into, const SoftmaxState& from) {
  const float nothing = -__builtin_inff();
  for (int64_t i = 0; i < into.count; ++i) {
    if (from.maxima[i] == nothing) continue;
    float* a = into.values + i * into.v_pad;
    const float* b = from.values + i * into.v_pad;
    if (into.maxima[i] == nothing) {
      into.maxima[i] = from.maxima[i];
      into.sums[i] = from.sums[i];
      __builtin_memcpy(a, b, static_cast<size_t>(into.v_pad) * 4);
      continue;
    }
    const float now = into.maxima[i] > from.maxima[i] ? into.maxima[i] : from.maxima[i];
    alignas(64) float fa[kLanes];
    alignas(64) float fb[kLanes];
    store(fa, exp(set1(into.maxima[i] - now)));
    store(fb, exp(set1(from.maxima[i] - now)));
    into.maxima[i] = now;
    into.sums[i] = into.sums[i] * fa[0] + from.sums[i] * fb[0];
    for (int64_t d = 0; d < into.v_pad; d += kLanes) {
      store(a + d, fma(load(b + d), set1(fb[0]), mul(load(a + d), set1(fa[0]))));
    }
  }
}

void finish_query(const SoftmaxState& state, int64_t i, const float* sink, float* out,
                  int64_t v_dim) {
  float total = state.sums[i];
  float factor = 1.0F;
  if (sink != nullptr) {
    const float now = *sink > state.maxima[i] ? *sink : state.maxima[i];
    alignas(64) float f[kLanes];
    alignas(64) float s[kLanes];
    store(f, exp(set1(state.maxima[i] - now)));
    store(s, exp(set1(*sink - now)));
    factor = f[0];
    total = total * factor + s[0];
  }
  map1(state.values + i * state.v_pad, out, v_dim, ScaleOp{set1(factor / total)});
}

constexpr VectorKernels kTable = {
    .lanes = kLanes,
    .rms_norm = rms_norm_row,
    .layer_norm = layer_norm_row,
    .add = add_rows,
    .mul = mul_rows,
    .silu_mul = silu_mul_rows,
    .scale = scale_row,
    .scale_add = scale_add_row,
    .sigmoid = sigmoid_row,
    .clamped_swiglu = clamped_swiglu_row,
    .softcap = softcap_row,
    .clamp = clamp_row,
    .xielu = xielu_row,
    .activate = activate_row,
    .rope_angles = rope_angles_row,
    .rope_rotate = rope_rotate_head,
    .narrow = narrow_row,
    .widen = widen_row,
    .attend_piece = attend_piece,
    .merge = merge_states,
    .finish = finish_query,
};
