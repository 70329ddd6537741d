// Rows against an unpacked tile: the same for all widths of codes.

struct MemoryPairs {
  const uint8_t* codes;
  MLXCEL_METHOD VI at(int pair, int v) const {
    return loadi(codes + pair * kTile * 4 + v * kLanes * 4);
  }
};

template <bool kSymmetric, int kSubs, int kRows>
void int16_micro(const Int16MicroArgs& a) {
  VF y[kRows][kVecs];
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      y[r][v] = a.first ? zero() : load(a.y + r * a.y_stride + v * kLanes);
    }
  }
  for (int64_t c = 0; c < a.chunks; ++c) {
    const float* scales = a.scales + c * kSubs * kTile;
    const float* biases = a.biases + c * kSubs * kTile;
    add_chunk<kSymmetric, kSubs, kRows>(
        MemoryPairs{a.codes + c * kPairs * kTile * 4}, a.x, c,
        [&](int s, int v) { return load(scales + s * kTile + v * kLanes); },
        [&](int s, int v) { return load(biases + s * kTile + v * kLanes); }, y);
  }
  MLXCEL_UNROLL for (int r = 0; r < kRows; ++r) {
    MLXCEL_UNROLL for (int v = 0; v < kVecs; ++v) {
      const VF bias = a.bias != nullptr ? load(a.bias + v * kLanes) : zero();
      store(a.y + r * a.y_stride + v * kLanes, a.bias != nullptr ? add(y[r][v], bias) : y[r][v]);
    }
  }
}

template <bool kSymmetric, int kSubs, int kRows>
constexpr auto int16_micro_or_null() -> void (*)(const Int16MicroArgs&) {
  if constexpr (kRows <= kInt16Rows) {
    return int16_micro<kSymmetric, kSubs, kRows>;
  } else {
    return nullptr;
  }
}

template <bool kSymmetric, int kSubs, int... kRows>
constexpr void fill_micro(Int16Micro& m, std::integer_sequence<int, kRows...>) {
  ((m.run[kSubs - 1][kRows] = int16_micro_or_null<kSymmetric, kSubs, kRows + 1>()), ...);
}

template <bool kSymmetric>
constexpr Int16Micro make_micro() {
  constexpr auto kRows = std::make_integer_sequence<int, kMaxInt16Rows>();
  Int16Micro m;
  fill_micro<kSymmetric, 1>(m, kRows);
  fill_micro<kSymmetric, 2>(m, kRows);
  return m;
}
