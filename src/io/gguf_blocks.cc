#include "io/gguf_blocks.h"

#include <cstring>

#include "io/bit_spread.h"

namespace mlxcel::io {
namespace {

constexpr int64_t kSmallBlock = 32;   // Q4_0 ... Q8_0
constexpr int64_t kSuperBlock = 256;  // K-quants

const uint8_t* u8(const std::byte* p) { return reinterpret_cast<const uint8_t*>(p); }

float half(const uint8_t* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_f32(bits);
}

// The low nibbles of 16 bytes, then the high ones: the element order of the 32-element types.
void nibbles16(const uint8_t* in, uint8_t* out) {
  constexpr uint64_t kLow = 0x0F0F0F0F0F0F0F0FU;
  for (int i = 0; i < 2; ++i) {
    uint64_t x = 0;
    std::memcpy(&x, in + 8 * i, sizeof x);
    const uint64_t low = x & kLow, high = (x >> 4) & kLow;
    std::memcpy(out + 8 * i, &low, sizeof low);
    std::memcpy(out + 16 + 8 * i, &high, sizeof high);
  }
}

// Adds bit j of `high` to code j as its fifth bit.
void fifth_bits(uint32_t high, uint8_t* codes) {
  for (int i = 0; i < 4; ++i, codes += 8) {
    uint64_t eight = 0;
    std::memcpy(&eight, codes, sizeof eight);
    eight |= spread8<1>(high >> (8 * i)) << 4;
    std::memcpy(codes, &eight, sizeof eight);
  }
}

uint32_t word(const uint8_t* p) {
  uint32_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

// f16 scale [f16 minimum] [32 high bits] 16 bytes of nibbles.
template <bool kMinimum, bool kFifthBit>
void unpack_small(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                  float* biases) {
  constexpr size_t kHigh = kMinimum ? 4 : 2;
  constexpr size_t kNibbles = kHigh + (kFifthBit ? 4 : 0);
  constexpr float kZero = kFifthBit ? 16.0F : 8.0F;
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += kNibbles + 16, codes += kSmallBlock) {
    const float d = half(p);
    scales[b] = d;
    biases[b] = kMinimum ? half(p + 2) : -kZero * d;
    nibbles16(p + kNibbles, codes);
    if constexpr (kFifthBit) fifth_bits(word(p + kHigh), codes);
  }
}

// f16 scale, 32 signed bytes. Codes are stored with 128 added.
void unpack_q8_0(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 34, codes += kSmallBlock) {
    const float d = half(p);
    scales[b] = d;
    biases[b] = -128.0F * d;
    for (int j = 0; j < 32; ++j) codes[j] = p[2 + j] ^ 0x80U;
  }
}

// The scales of one block of 256 in two levels. A minimum is subtracted, so its f16 changes sign.
struct TwoLevels {
  uint16_t scale = 0, bias = 0;
  int8_t scales[16] = {}, biases[16] = {};
};

uint16_t half_bits(const uint8_t* p) {
  uint16_t bits = 0;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}
uint16_t negated(uint16_t half_bits) { return half_bits ^ 0x8000U; }

TwoLevels two_level_q2_k(const uint8_t* p) {
  TwoLevels s{half_bits(p + 80), negated(half_bits(p + 82)), {}, {}};
  for (int g = 0; g < 16; ++g) {
    s.scales[g] = static_cast<int8_t>(p[g] & 15);
    s.biases[g] = static_cast<int8_t>(p[g] >> 4);
  }
  return s;
}

TwoLevels two_level_q3_k(const uint8_t* p) {
  TwoLevels s{half_bits(p + 108), 0, {}, {}};
  const uint8_t* packed = p + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    s.scales[g] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  return s;
}

// Q4_K and Q5_K: f16 scale, f16 minimum, eight 6-bit scales and minima in 12 bytes.
TwoLevels two_level_k4(const uint8_t* p) {
  TwoLevels s{half_bits(p), negated(half_bits(p + 2)), {}, {}};
  const uint8_t* packed = p + 4;
  for (int g = 0; g < 8; ++g) {
    int scale = packed[g] & 63, offset = packed[(g + 4) % 12] & 63;
    if (g >= 4) {
      scale = (packed[g + 4] & 15) | ((packed[g - 4] >> 6) << 4);
      offset = (packed[g + 4] >> 4) | ((packed[g] >> 6) << 4);
    }
    s.scales[g] = static_cast<int8_t>(scale);
    s.biases[g] = static_cast<int8_t>(offset);
  }
  return s;
}

TwoLevels two_level_q6_k(const uint8_t* p) {
  TwoLevels s{half_bits(p + 208), 0, {}, {}};
  std::memcpy(s.scales, p + 192, 16);
  return s;
}

/// Scales and biases as f32; `zero` other than 0 makes biases of scales.
template <int kGroups>
void expand(const TwoLevels& s, float* scales, float* biases, float zero = 0) {
  const float scale = f16_to_f32(s.scale), bias = f16_to_f32(s.bias);
  for (int g = 0; g < kGroups; ++g) {
    scales[g] = scale * static_cast<float>(s.scales[g]);
    biases[g] = zero != 0 ? zero * scales[g] : bias * static_cast<float>(s.biases[g]);
  }
}

template <TwoLevels (*kRead)(const uint8_t*), int kBlockBytes, int kGroups>
void read_two_levels(const std::byte* in, int64_t blocks, const SubScales& out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const TwoLevels s = kRead(u8(in) + b * kBlockBytes);
    out.super_scales[b] = s.scale;
    std::memcpy(out.sub_scales + b * kGroups, s.scales, kGroups);
    if (out.super_biases != nullptr) out.super_biases[b] = s.bias;
    if (out.sub_biases != nullptr) std::memcpy(out.sub_biases + b * kGroups, s.biases, kGroups);
  }
}

// 16 bytes of 4-bit scales and minima, 64 bytes of 2-bit codes, f16 scale, f16 minimum; groups of
// 16.
void unpack_q2_k(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 84, scales += 16, biases += 16) {
    expand<16>(two_level_q2_k(p), scales, biases);
    for (int part = 0; part < 2; ++part) {
      const uint8_t* q = p + 16 + 32 * part;
      for (int shift = 0; shift < 8; shift += 2, codes += 32) {
        for (int l = 0; l < 32; ++l) codes[l] = static_cast<uint8_t>((q[l] >> shift) & 3);
      }
    }
  }
}

// 32 bytes of third bits, 64 bytes of low bits, sixteen 6-bit scales in 12 bytes, f16 scale.
void unpack_q3_k(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 110, scales += 16, biases += 16) {
    expand<16>(two_level_q3_k(p), scales, biases, -4.0F);
    for (int part = 0; part < 2; ++part) {
      const uint8_t* q = p + 32 + 32 * part;
      for (int j = 0; j < 4; ++j, codes += 32) {
        for (int l = 0; l < 32; ++l) {
          const int low = (q[l] >> (2 * j)) & 3;
          const int high = (p[l] >> (4 * part + j)) & 1;
          codes[l] = static_cast<uint8_t>(low | (high << 2));
        }
      }
    }
  }
}

// f16 scale, f16 minimum, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles; groups of 32.
void unpack_q4_k(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 144, scales += 8, biases += 8) {
    expand<8>(two_level_k4(p), scales, biases);
    for (int part = 0; part < 4; ++part, codes += 64) {
      const uint8_t* q = p + 16 + 32 * part;
      for (int l = 0; l < 32; ++l) codes[l] = q[l] & 15;
      for (int l = 0; l < 32; ++l) codes[32 + l] = q[l] >> 4;
    }
  }
}

// The same scales, 32 bytes of fifth bits, 128 bytes of nibbles; groups of 32.
void unpack_q5_k(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 176, scales += 8, biases += 8) {
    expand<8>(two_level_k4(p), scales, biases);
    const uint8_t* high = p + 16;
    for (int part = 0; part < 4; ++part, codes += 64) {
      const uint8_t* q = p + 48 + 32 * part;
      const int bit = 2 * part;
      for (int l = 0; l < 32; ++l) {
        codes[l] = static_cast<uint8_t>((q[l] & 15) | (((high[l] >> bit) & 1) << 4));
      }
      for (int l = 0; l < 32; ++l) {
        codes[32 + l] = static_cast<uint8_t>((q[l] >> 4) | (((high[l] >> (bit + 1)) & 1) << 4));
      }
    }
  }
}

// 128 bytes of nibbles, 64 bytes of high bit pairs, sixteen int8 scales, f16 scale; groups of 16.
void unpack_q6_k(const std::byte* in, int64_t blocks, uint8_t* codes, float* scales,
                 float* biases) {
  const uint8_t* p = u8(in);
  for (int64_t b = 0; b < blocks; ++b, p += 210, scales += 16, biases += 16) {
    expand<16>(two_level_q6_k(p), scales, biases, -32.0F);
    for (int part = 0; part < 2; ++part) {
      const uint8_t* high = p + 128 + 32 * part;
      for (int j = 0; j < 4; ++j, codes += 32) {
        const uint8_t* q = p + 64 * part + 32 * (j % 2);
        const int nibble = j < 2 ? 0 : 4;
        for (int l = 0; l < 32; ++l) {
          codes[l] =
              static_cast<uint8_t>(((q[l] >> nibble) & 15) | (((high[l] >> (2 * j)) & 3) << 4));
        }
      }
    }
  }
}

constexpr GgmlTraits dense(GgmlType type, std::string_view name, DType dtype) {
  return {.type = type, .name = name, .block = 1, .block_bytes = size_of(dtype), .dtype = dtype};
}

constexpr GgmlTraits affine(GgmlType type, std::string_view name, int64_t block, int64_t bytes,
                            uint8_t bits, uint16_t group, bool symmetric,
                            decltype(GgmlTraits::unpack) unpack, uint8_t sub_scale_bits = 0,
                            decltype(GgmlTraits::sub_scales) sub_scales = nullptr) {
  return {.type = type,
          .name = name,
          .block = block,
          .block_bytes = bytes,
          .quantized = true,
          .format = {.kind = WeightFormat::Kind::Affine,
                     .bits = bits,
                     .group = group,
                     .scale_type = block == kSmallBlock ? DType::F16 : DType::F32,
                     .symmetric = symmetric,
                     .sub_scale_bits = sub_scale_bits},
          .unpack = unpack,
          .sub_scales = sub_scales};
}

constexpr GgmlTraits kTraits[] = {
    dense(GgmlType::F32, "F32", DType::F32),
    dense(GgmlType::F16, "F16", DType::F16),
    affine(GgmlType::Q4_0, "Q4_0", kSmallBlock, 18, 4, 32, true, unpack_small<false, false>),
    affine(GgmlType::Q4_1, "Q4_1", kSmallBlock, 20, 4, 32, false, unpack_small<true, false>),
    affine(GgmlType::Q5_0, "Q5_0", kSmallBlock, 22, 5, 32, true, unpack_small<false, true>),
    affine(GgmlType::Q5_1, "Q5_1", kSmallBlock, 24, 5, 32, false, unpack_small<true, true>),
    affine(GgmlType::Q8_0, "Q8_0", kSmallBlock, 34, 8, 32, true, unpack_q8_0),
    affine(GgmlType::Q2_K, "Q2_K", kSuperBlock, 84, 2, 16, false, unpack_q2_k, 4,
           read_two_levels<two_level_q2_k, 84, 16>),
    affine(GgmlType::Q3_K, "Q3_K", kSuperBlock, 110, 3, 16, true, unpack_q3_k, 6,
           read_two_levels<two_level_q3_k, 110, 16>),
    affine(GgmlType::Q4_K, "Q4_K", kSuperBlock, 144, 4, 32, false, unpack_q4_k, 6,
           read_two_levels<two_level_k4, 144, 8>),
    affine(GgmlType::Q5_K, "Q5_K", kSuperBlock, 176, 5, 32, false, unpack_q5_k, 6,
           read_two_levels<two_level_k4, 176, 8>),
    affine(GgmlType::Q6_K, "Q6_K", kSuperBlock, 210, 6, 16, true, unpack_q6_k, 8,
           read_two_levels<two_level_q6_k, 210, 16>),
    dense(GgmlType::I8, "I8", DType::I8),
    dense(GgmlType::I16, "I16", DType::I16),
    dense(GgmlType::I32, "I32", DType::I32),
    dense(GgmlType::I64, "I64", DType::I64),
    dense(GgmlType::F64, "F64", DType::F64),
    dense(GgmlType::BF16, "BF16", DType::BF16),
};

struct OtherType {
  uint32_t type;
  std::string_view name;
};
constexpr OtherType kOthers[] = {
    {9, "Q8_1"},   {15, "Q8_K"},     {16, "IQ2_XXS"},  {17, "IQ2_XS"},   {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"},   {21, "IQ3_S"},    {22, "IQ2_S"},    {23, "IQ4_XS"},
    {29, "IQ1_M"}, {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {34, "TQ1_0"},
    {35, "TQ2_0"}, {39, "MXFP4"},    {40, "NVFP4"},    {41, "Q1_0"}};

}  // namespace

const GgmlTraits* ggml_traits(uint32_t type) {
  for (const GgmlTraits& row : kTraits) {
    if (static_cast<uint32_t>(row.type) == type) return &row;
  }
  return nullptr;
}

std::string_view known_ggml_type_name(uint32_t type) {
  if (const GgmlTraits* row = ggml_traits(type)) return row->name;
  for (const OtherType& other : kOthers) {
    if (other.type == type) return other.name;
  }
  return {};
}

std::string_view ggml_type_name(GgmlType type) {
  return known_ggml_type_name(static_cast<uint32_t>(type));
}

}  // namespace mlxcel::io
