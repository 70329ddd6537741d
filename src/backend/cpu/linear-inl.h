// Matrix kernels in the primitives of one vector width. Every (row, output) sum is taken in one
// order: inside a group over inputs from the first, starting at zero; then over groups from the
// first, as sum = scale * part + sum and sum = bias * sum_of_x + sum.

// ---- codecs: at(cursor, i, v) is the i-th of kStep inputs for the outputs of vector v, times
// 2^code_shift for bit planes.

template <int L, int H, bool kSymmetric>
struct PlaneCodec {
  static constexpr int kMode = kSymmetric ? 1 : 2;
  static constexpr bool kTwoLevels = two_levels_possible(L + H, kSymmetric);
  static constexpr int kPeriod = 32 / L;
  static constexpr int kStep = kPeriod < 16 ? kPeriod : 16;
  // Joining two planes takes longer than the FMA latency, so fewer sums in flight do.
  static constexpr int kTiles = H == 0 ? kGemvTiles : (kGemvTiles + 1) / 2;
  struct Cursor {
    const uint8_t* low;
    const uint8_t* high;
    int high_index;  // which share of a high dword belongs to the low dword
    int skip;        // bits of a low dword that belong to an earlier step
  };
  MLXCEL_INLINE Cursor cursor(const TileLayout& layout, const uint8_t* block, int64_t k) {
    const int64_t dword = k / kPeriod;
    Cursor c{block + dword * (kTile * 4), nullptr, 0, 0};
    if constexpr (H > 0) {
      c.high = block + layout.high_offset + dword / (L / H) * (kTile * 4);
      c.high_index = static_cast<int>(dword % (L / H));
    }
    if constexpr (kPeriod > kStep) c.skip = static_cast<int>(k % kPeriod);
    return c;
  }
  MLXCEL_INLINE VF at(const Cursor& c, int i, int v) {
    constexpr int kLowMask = (1 << L) - 1;
    const int shift = code_shift(L, H, i);
    VI low = loadi(c.low + v * kLanes * 4);
    if constexpr (kPeriod > kStep) low = shr(low, c.skip);
    VI code;
    if constexpr (H == 0) {
      code = kPeriod == kStep && i == kPeriod - 1 ? shr(low, 32 - L)
                                                  : bit_and(low, set1i(kLowMask << shift));
    } else {
      // Shifted by L - H * index, input i has its high bits at L * i + L, above its low bits.
      const VI dword = loadi(c.high + v * kLanes * 4);
      const bool upper = i >= kPeriod / 2;
      if (upper) low = shr(low, 16);
      const VI high =
          upper ? shr(shr(dword, H * c.high_index), 16 - L) : shl(dword, L - H * c.high_index);
      code = bit_or(bit_and(low, set1i(kLowMask << shift)),
                    bit_and(high, set1i(((1 << H) - 1) << (shift + L))));
    }
    if constexpr (kSymmetric) code = subi(code, set1i((1 << (L + H - 1)) << shift));
    return to_float(code);
  }
};

// Codecs with whole elements in input order, kTile of them an input.
template <class Element, int kModeOf>
struct ElementCodec {
  static constexpr int kMode = kModeOf;
  static constexpr bool kTwoLevels = false;
  static constexpr int kStep = 8;
  static constexpr int kTiles = kGemvTiles;
  using Cursor = const uint8_t*;
  MLXCEL_INLINE Cursor cursor(const TileLayout&, const uint8_t* block, int64_t k) {
    return block + k * kTile * Element::kSize;
  }
  MLXCEL_INLINE VF at(const Cursor& c, int i, int v) {
    return Element::value(c + (i * kTile + v * kLanes) * Element::kSize);
  }
};
struct F32Element {
  static constexpr int kSize = 4;
  MLXCEL_INLINE VF value(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Element {
  static constexpr int kSize = 2;
  MLXCEL_INLINE VF value(const uint8_t* p) {
    return load_f16(reinterpret_cast<const uint16_t*>(p));
  }
};
struct Bf16Element {
  static constexpr int kSize = 2;
  MLXCEL_INLINE VF value(const uint8_t* p) {
    return load_bf16(reinterpret_cast<const uint16_t*>(p));
  }
};
struct F8Element {
  static constexpr int kSize = 1;
  // Exponent and mantissa move to their f32 places; 2^120 corrects the exponent's bias and makes
  // subnormals right. The code of all ones is NaN.
  MLXCEL_INLINE VF value(const uint8_t* p) {
    const VI code = load_u8(p);
    const VF scaled = mul(as_float(shl(bit_and(code, set1i(0x7F)), 20)), set1(0x1p120F));
    const VI sign = shl(bit_and(code, set1i(0x80)), 24);
    const VF signed_value = as_float(bit_or(as_int(scaled), sign));
    return select_less(scaled, set1(464.0F), signed_value, as_float(set1i(0x7FC00000)));
  }
};

// part[r][t][v] = sum over inputs [begin, end) of a block, in order.
template <class Codec, int kRows, int kNumTiles>
MLXCEL_INLINE void sum_group(const TileLayout& layout, const uint8_t* const* blocks, int64_t begin,
                             int64_t end, const float* x, int64_t x_stride,
                             VF (&part)[kRows][kNumTiles][kVecs]) {
  constexpr int kStep = Codec::kStep;
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) part[r][t][v] = zero();
    }
  }
  int64_t k = begin;
  for (; k + kStep <= end; k += kStep, x += kStep) {
    typename Codec::Cursor c[kNumTiles];
    MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) c[t] = Codec::cursor(layout, blocks[t], k);
    MLXCEL_UNROLL for (int i = 0; i < kStep; ++i) {
      MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
          const VF w = Codec::at(c[t], i, v);
          MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
            part[r][t][v] = fma(w, set1(x[r * x_stride + i]), part[r][t][v]);
          }
        }
      }
    }
  }
  if constexpr (Codec::kMode == 0) {
    for (; k < end; ++k, ++x) {
      MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
        const auto c = Codec::cursor(layout, blocks[t], k);
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
          const VF w = Codec::at(c, 0, v);
          MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
            part[r][t][v] = fma(w, set1(x[r * x_stride]), part[r][t][v]);
          }
        }
      }
    }
  }
}

// kRows rows from `row` on times kNumTiles tiles.
template <class Codec, int kRows, int kNumTiles>
void gemv_tiles(const GemvArgs& a, int64_t row, int64_t tile) {
  const TileLayout layout = *a.layout;
  const uint8_t* blocks[kNumTiles];
  VF sums[kRows][kNumTiles][kVecs];
  MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
    blocks[t] = a.data + (tile + t) * layout.tile_bytes;
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) sums[r][t][v] = zero();
    }
  }
  const float* x = a.x.x + row * a.x.stride;
  const float* x_sums = a.x.sums + row * layout.groups;
  int64_t group = 0;
  for (int64_t b = 0; b < layout.blocks; ++b) {
    for (int64_t g = 0; g < layout.block_groups && group < layout.groups; ++g, ++group) {
      const int64_t first = group * layout.group;
      const int64_t size = layout.cols - first < layout.group ? layout.cols - first : layout.group;
      VF part[kRows][kNumTiles][kVecs];
      sum_group<Codec, kRows, kNumTiles>(layout, blocks, g * layout.group, g * layout.group + size,
                                         x + first, a.x.stride, part);
      MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
          if constexpr (Codec::kMode == 0) {
            MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
              sums[r][t][v] = add(sums[r][t][v], part[r][t][v]);
            }
          } else {
            const VF s = ScaleReader<Codec::kTwoLevels>::scale(layout, blocks[t], g, v);
            MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
              sums[r][t][v] = fma(s, part[r][t][v], sums[r][t][v]);
            }
          }
          if constexpr (Codec::kMode == 2) {
            const VF z = ScaleReader<Codec::kTwoLevels>::bias(layout, blocks[t], g, v);
            MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
              sums[r][t][v] = fma(z, set1(x_sums[r * layout.groups + group]), sums[r][t][v]);
            }
          }
        }
      }
    }
    MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) blocks[t] += layout.block_bytes;
  }
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int t = 0; t < kNumTiles; ++t) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
        const int64_t out = (tile + t) * kTile + v * kLanes;
        store_outputs(a.y + (row + r) * a.y_stride + out,
                      a.bias != nullptr ? a.bias + out : nullptr, sums[r][t][v], a.rows - out);
      }
    }
  }
}

// Rows share what a code costs to decode, tiles hide the latency of the sums: the fewer rows, the
// more tiles at once.
template <class Codec, int kRows>
MLXCEL_INLINE void gemv_rows(const GemvArgs& a, int64_t row, int64_t tile, int64_t end) {
  constexpr int kNumTiles = Codec::kTiles > kRows ? Codec::kTiles / kRows : 1;
  for (; tile + kNumTiles <= end; tile += kNumTiles) {
    gemv_tiles<Codec, kRows, kNumTiles>(a, row, tile);
  }
  if constexpr (kNumTiles > 2) {
    for (; tile + 2 <= end; tile += 2) gemv_tiles<Codec, kRows, 2>(a, row, tile);
  }
  if constexpr (kNumTiles > 1) {
    if (tile < end) gemv_tiles<Codec, kRows, 1>(a, row, tile);
  }
}

template <class Codec>
void gemv(const GemvArgs& a) {
  // Codes of a few tiles stay in cache for the later rows.
  constexpr int64_t kChunk = 4;
  const int64_t step = a.m == 1 ? a.tiles.end - a.tiles.begin : kChunk;
  for (int64_t tile = a.tiles.begin; tile < a.tiles.end; tile += step) {
    const int64_t end = tile + step < a.tiles.end ? tile + step : a.tiles.end;
    int64_t row = 0;
    for (; row + 4 <= a.m; row += 4) gemv_rows<Codec, 4>(a, row, tile, end);
    if (a.m - row >= 2) {
      gemv_rows<Codec, 2>(a, row, tile, end);
      row += 2;
    }
    if (a.m - row == 1) gemv_rows<Codec, 1>(a, row, tile, end);
  }
}

template <class Codec>
void unpack(const UnpackArgs& a) {
  const TileLayout layout = *a.layout;
  constexpr int kStep = Codec::kStep;
  float* out = a.values;
  for (int64_t k0 = a.begin; k0 < a.end; k0 += layout.block_cols) {
    const uint8_t* block = a.tile + k0 / layout.block_cols * layout.block_bytes;
    const int64_t size = a.end - k0 < layout.block_cols ? a.end - k0 : layout.block_cols;
    int64_t k = 0;
    for (; k + kStep <= size; k += kStep) {
      const auto c = Codec::cursor(layout, block, k);
      MLXCEL_UNROLL for (int i = 0; i < kStep; ++i, out += kTile) {
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) store(out + v * kLanes, Codec::at(c, i, v));
      }
    }
    if constexpr (Codec::kMode == 0) {
      for (; k < size; ++k, out += kTile) {
        const auto c = Codec::cursor(layout, block, k);
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) store(out + v * kLanes, Codec::at(c, 0, v));
      }
    } else {
      for (int64_t g = 0; g * layout.group < size; ++g) {
        const int64_t to = ((k0 - a.begin) / layout.group + g) * kTile;
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
          store(a.scales + to + v * kLanes,
                ScaleReader<Codec::kTwoLevels>::scale(layout, block, g, v));
          if constexpr (Codec::kMode == 2) {
            store(a.biases + to + v * kLanes,
                  ScaleReader<Codec::kTwoLevels>::bias(layout, block, g, v));
          }
        }
      }
    }
  }
}

// Rows of x against one unpacked tile: the values stay in the first cache level, sums of a group in
// registers.
template <int kMode, int kRows>
void micro(const MicroArgs& a) {
  constexpr int kUnroll = 4;
  VF sums[kRows][kVecs];
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = a.first ? zero() : load(a.y + r * a.y_stride + v * kLanes);
    }
  }
  const float* values = a.values;
  const float* x = a.x;
  for (int64_t k0 = 0, g = 0; k0 < a.cols; k0 += a.group, ++g) {
    const int64_t size = a.cols - k0 < a.group ? a.cols - k0 : a.group;
    VF part[kRows][kVecs];
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) part[r][v] = zero();
    }
    int64_t k = 0;
    for (; k + kUnroll <= size; k += kUnroll, values += kUnroll * kTile, x += kUnroll * kRows) {
      MLXCEL_UNROLL for (int i = 0; i < kUnroll; ++i) {
        VF w[kVecs];
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) w[v] = load(values + i * kTile + v * kLanes);
        MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
          const VF xi = set1(x[i * kRows + r]);
          MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) part[r][v] = fma(w[v], xi, part[r][v]);
        }
      }
    }
    for (; k < size; ++k, values += kTile, x += kRows) {
      MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
        MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
          part[r][v] = fma(load(values + v * kLanes), set1(x[r]), part[r][v]);
        }
      }
    }
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      if constexpr (kMode == 0) {
        MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) sums[r][v] = add(sums[r][v], part[r][v]);
      } else {
        const VF scale = load(a.scales + g * kTile + v * kLanes);
        MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
          sums[r][v] = fma(scale, part[r][v], sums[r][v]);
        }
      }
      if constexpr (kMode == 2) {
        const VF bias = load(a.biases + g * kTile + v * kLanes);
        MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
          sums[r][v] = fma(bias, set1(a.x_sums[r * a.sums_stride + g]), sums[r][v]);
        }
      }
    }
  }
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      VF s = sums[r][v];
      if (a.bias != nullptr) s = add(s, load(a.bias + v * kLanes));
      store(a.y + r * a.y_stride + v * kLanes, s);
    }
  }
}

void scale_x(const float* x, const float* factors, float* xs, int64_t n) {
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    store(xs + k, mul(load(x + k), load(factors + k % 32)));
  }
  for (; k < n; ++k) xs[k] = x[k] * factors[k % 32];
}

// out[k][r] = x[r][k] * factors[k % 32] for `rows` rows and n inputs.
void interleave(const float* x, int64_t x_stride, int64_t rows, const float* factors, float* out,
                int64_t n) {
  for (int64_t k = 0; k < n; k += 16) {
    const int64_t count = n - k < 16 ? n - k : 16;
    for (int64_t r = 0; r < rows; ++r) {
      const float* in = x + r * x_stride + k;
      float* to = out + k * rows + r;
      for (int64_t i = 0; i < count; ++i) to[i * rows] = in[i] * factors[(k + i) % 32];
    }
  }
}

float sum_of(const float* x, int64_t n) {
  VF s = zero();
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) s = add(s, load(x + k));
  float total = sum(s);
  for (; k < n; ++k) total += x[k];
  return total;
}

template <int L, int H>
using AffineCodec = PlaneCodec<L, H, false>;
template <int L, int H>
using SymmetricCodec = PlaneCodec<L, H, true>;

#define MLXCEL_EACH_CODEC(f)           \
  {                                    \
      f<AffineCodec<1, 0>>,            \
      f<AffineCodec<2, 0>>,            \
      f<AffineCodec<2, 1>>,            \
      f<AffineCodec<4, 0>>,            \
      f<AffineCodec<4, 1>>,            \
      f<AffineCodec<4, 2>>,            \
      f<AffineCodec<8, 0>>,            \
      f<SymmetricCodec<1, 0>>,         \
      f<SymmetricCodec<2, 0>>,         \
      f<SymmetricCodec<2, 1>>,         \
      f<SymmetricCodec<4, 0>>,         \
      f<SymmetricCodec<4, 1>>,         \
      f<SymmetricCodec<4, 2>>,         \
      f<SymmetricCodec<8, 0>>,         \
      f<ElementCodec<F32Element, 0>>,  \
      f<ElementCodec<F16Element, 0>>,  \
      f<ElementCodec<Bf16Element, 0>>, \
      f<ElementCodec<F8Element, 0>>,   \
  }

template <int kMode, int kRows>
constexpr auto micro_or_null() -> void (*)(const MicroArgs&) {
  if constexpr (kRows <= kMicroRows) {
    return micro<kMode, kRows>;
  } else {
    return nullptr;
  }
}
#define MLXCEL_MICRO(m)                                                                              \
  {                                                                                                  \
      micro_or_null<m, 1>(), micro_or_null<m, 2>(),  micro_or_null<m, 3>(),  micro_or_null<m, 4>(),  \
      micro_or_null<m, 5>(), micro_or_null<m, 6>(),  micro_or_null<m, 7>(),  micro_or_null<m, 8>(),  \
      micro_or_null<m, 9>(), micro_or_null<m, 10>(), micro_or_null<m, 11>(), micro_or_null<m, 12>(), \
  }

constexpr LinearKernels kTable = {
    .gemv = MLXCEL_EACH_CODEC(gemv),
    .unpack = MLXCEL_EACH_CODEC(unpack),
    .micro = {MLXCEL_MICRO(0), MLXCEL_MICRO(1), MLXCEL_MICRO(2)},
    .micro_rows = kMicroRows,
    .scale_x = scale_x,
    .interleave = interleave,
    .sum = sum_of,
};
