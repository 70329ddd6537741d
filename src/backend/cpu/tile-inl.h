// What all kernels on layout CpuTile16 share: scales and outputs of a tile.

inline constexpr int kVecs = kTile / kLanes;

MLXCEL_INLINE VF load_scales(const uint8_t* p, DType type, int v) {
  if (type == DType::F16) return load_f16(reinterpret_cast<const uint16_t*>(p) + v * kLanes);
  if (type == DType::BF16) return load_bf16(reinterpret_cast<const uint16_t*>(p) + v * kLanes);
  return load(reinterpret_cast<const float*>(p) + v * kLanes);
}

// Scales and biases of group g of a block. In two levels they are formed here, rounded as if they
// had been read as f32.
template <bool kTwoLevels>
struct ScaleReader {
  MLXCEL_INLINE VF scale(const TileLayout& layout, const uint8_t* block, int64_t g, int v) {
    if constexpr (kTwoLevels) {
      if (layout.sub_scale_bits > 0) {
        const uint8_t* p = block + layout.sub_offset + g * layout.sub_stride + v * kLanes;
        const VI integer = layout.sub_scale_bits == 4 ? bit_and(load_u8(p), set1i(15)) : load_s8(p);
        return mul(load_scales(block + layout.scale_offset, DType::F16, v), to_float(integer));
      }
    }
    return load_scales(block + layout.scale_offset + g * layout.scale_stride, layout.scale_type, v);
  }
  MLXCEL_INLINE VF bias(const TileLayout& layout, const uint8_t* block, int64_t g, int v) {
    if constexpr (kTwoLevels) {
      if (layout.sub_scale_bits > 0) {
        const uint8_t* p = block + layout.sub_offset + g * layout.sub_stride + v * kLanes;
        const VI integer = layout.sub_scale_bits == 4 ? shr(load_u8(p), 4) : load_s8(p + kTile);
        return mul(load_scales(block + layout.bias_offset, DType::F16, v), to_float(integer));
      }
    }
    return load_scales(block + layout.bias_offset + g * layout.scale_stride, layout.scale_type, v);
  }
};

MLXCEL_INLINE void store_outputs(float* y, const float* bias, VF value, int64_t n) {
  if (n >= kLanes) {
    store(y, bias != nullptr ? add(value, load(bias)) : value);
  } else if (n > 0) {
    store_n(y, bias != nullptr ? add(value, load_n(bias, n)) : value, n);
  }
}
