// Element types and conversions between them.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace mlxcel {

enum class DType : uint8_t {
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F64,
  Bool
};

constexpr int64_t size_of(DType t) {
  constexpr int8_t kBytes[] = {4, 2, 2, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 1};
  return kBytes[static_cast<int>(t)];
}
/// "f32", "bf16", ...
std::string_view dtype_name(DType t);
constexpr bool is_float(DType t) {
  return t == DType::F32 || t == DType::F16 || t == DType::BF16 || t == DType::F8E4M3 ||
         t == DType::F8E5M2 || t == DType::F64;
}

// Scalar conversions, IEEE round to nearest even. NaN stays NaN; overflow gives infinity (F8E4M3:
// NaN).
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t f32_to_bf16(float value);
float f8e4m3_to_f32(uint8_t bits);  // OCP FP8 (E4M3FN): no infinities
uint8_t f32_to_f8e4m3(float value);
float f8e5m2_to_f32(uint8_t bits);

/// Converts n elements of any floating or integer type to f32.
void convert_to_f32(DType from, const void* in, float* out, int64_t n);
/// Converts n f32 elements to F32, F16, BF16 or F8E4M3; throws Unsupported for others.
void convert_from_f32(DType to, const float* in, void* out, int64_t n);

}  // namespace mlxcel
