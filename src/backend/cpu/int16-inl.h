// What depends on the width of the codes: a few rows straight from the planes, and unpacking.

// The codes of one chunk of a tile for the outputs of vector v, read from the planes.
template <int L, int H>
struct PlanePairs {
  const uint8_t* low;
  const uint8_t* high;
  MLXCEL_METHOD VI at(int pair, int v) const {
    constexpr int kInDword = 16 / L;
    constexpr int kLowMask = ((1 << L) - 1) * 0x00010001;
    const int dword = pair / kInDword;
    const int part = pair % kInDword;
    VI code = loadi(low + dword * kTile * 4 + v * kLanes * 4);
    if (part > 0) code = shr(code, L * part);
    code = bit_and(code, set1i(kLowMask));
    if constexpr (H > 0) {
      constexpr int kShare = L / H;  // low dwords of one high dword
      constexpr int kHighMask = ((1 << H) - 1) * 0x00010001;
      VI top = loadi(high + dword / kShare * kTile * 4 + v * kLanes * 4);
      const int shift = L * part + H * (dword % kShare) - L;
      if (shift > 0) top = shr(top, shift);
      if (shift < 0) top = shl(top, -shift);
      code = bit_or(code, bit_and(top, set1i(kHighMask << L)));
    }
    return code;
  }
};

template <int L, int H, bool kSymmetric, int kSubs, int kRows>
void int16_gemv(const Int16GemvArgs& a) {
  const TileLayout layout = *a.layout;
  using Scaled = ScaleReader<two_levels_possible(L + H, kSymmetric)>;
  const int64_t chunks_in_block = layout.block_cols / kChunk;
  const int64_t per_group = layout.group > kChunk ? layout.group / kChunk : 1;
  for (int64_t tile = a.tiles.begin; tile < a.tiles.end; ++tile) {
    const uint8_t* block = a.data + tile * layout.tile_bytes;
    VF y[kRows][kVecs];
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) y[r][v] = zero();
    }
    int64_t chunk = 0;
    for (int64_t b = 0; b < layout.blocks; ++b, block += layout.block_bytes) {
      for (int64_t c = 0; c < chunks_in_block; ++c, ++chunk) {
        const PlanePairs<L, H> pairs{block + c * kTile * 4 * L,
                                     block + layout.high_offset + c * kTile * 4 * H};
        const int64_t group = kSubs == 2 ? c * 2 : c / per_group;
        add_chunk<kSymmetric, kSubs, kRows>(
            pairs, a.x, chunk,
            [&](int s, int v) { return Scaled::scale(layout, block, group + s, v); },
            [&](int s, int v) { return Scaled::bias(layout, block, group + s, v); }, y);
      }
    }
    MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
        const int64_t out = tile * kTile + v * kLanes;
        store_outputs(a.y + r * a.y_stride + out, a.bias != nullptr ? a.bias + out : nullptr,
                      y[r][v], a.outputs - out);
      }
    }
  }
}

template <int L, int H, bool kSymmetric>
void int16_unpack(const Int16UnpackArgs& a) {
  const TileLayout layout = *a.layout;
  using Scaled = ScaleReader<two_levels_possible(L + H, kSymmetric)>;
  const int subs = layout.group == 16 ? 2 : 1;
  const int64_t per_group = layout.group > kChunk ? layout.group / kChunk : 1;
  const int64_t chunks_in_block = layout.block_cols / kChunk;
  uint8_t* out = a.codes;
  float* scales = a.scales;
  float* biases = a.biases;
  for (int64_t chunk = a.begin / kChunk; chunk < a.end / kChunk; ++chunk) {
    const uint8_t* block = a.tile + chunk / chunks_in_block * layout.block_bytes;
    const int64_t c = chunk % chunks_in_block;
    const PlanePairs<L, H> pairs{block + c * kTile * 4 * L,
                                 block + layout.high_offset + c * kTile * 4 * H};
    MLXCEL_UNROLL for (int pair = 0; pair < kPairs; ++pair) {
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
        storei(out + pair * kTile * 4 + v * kLanes * 4, pairs.at(pair, v));
      }
    }
    out += kPairs * kTile * 4;
    for (int s = 0; s < subs; ++s) {
      const int64_t group = subs == 2 ? c * 2 + s : c / per_group;
      MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
        store(scales + v * kLanes, Scaled::scale(layout, block, group, v));
        if constexpr (!kSymmetric)
          store(biases + v * kLanes, Scaled::bias(layout, block, group, v));
      }
      scales += kTile;
      biases += kTile;
    }
  }
}

// ---- tables

template <int L, int H, bool kSymmetric, int kSubs>
constexpr void fill_gemv(Int16Codec& c) {
  c.gemv[kSubs - 1][0] = int16_gemv<L, H, kSymmetric, kSubs, 1>;
  c.gemv[kSubs - 1][1] = int16_gemv<L, H, kSymmetric, kSubs, 2>;
  c.gemv[kSubs - 1][2] = int16_gemv<L, H, kSymmetric, kSubs, 3>;
  c.gemv[kSubs - 1][3] = int16_gemv<L, H, kSymmetric, kSubs, 4>;
}

template <int L, int H, bool kSymmetric>
constexpr Int16Codec make_codec() {
  Int16Codec c;
  fill_gemv<L, H, kSymmetric, 1>(c);
  // A pair of single bits spans two groups of 16 inputs.
  if constexpr (L > 1) fill_gemv<L, H, kSymmetric, 2>(c);
  c.unpack = int16_unpack<L, H, kSymmetric>;
  return c;
}
