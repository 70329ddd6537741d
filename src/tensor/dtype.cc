#include "tensor/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace mlxcel {
namespace {

template <class T>
T load(const void* in, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(in) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

// A small float with `exponent` and `mantissa` bits and IEEE subnormals, without its special
// values.
float small_float(unsigned bits, int exponent, int mantissa, int bias) {
  const unsigned sign = bits >> (exponent + mantissa);
  const int e = static_cast<int>((bits >> mantissa) & ((1U << exponent) - 1));
  const auto m = static_cast<float>(bits & ((1U << mantissa) - 1));
  const float unit = std::ldexp(1.0F, -mantissa);
  const float value =
      e == 0 ? std::ldexp(m * unit, 1 - bias) : std::ldexp(1.0F + m * unit, e - bias);
  return sign != 0 ? -value : value;
}

}  // namespace

std::string_view dtype_name(DType t) {
  static constexpr std::string_view kNames[] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2",
                                                "i8",  "u8",  "i16",  "u16",     "i32",
                                                "u32", "i64", "u64",  "f64",     "bool"};
  return kNames[static_cast<int>(t)];
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U)
    return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {                   // subnormal half: the addition rounds at 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float f8e4m3_to_f32(uint8_t bits) {
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  return small_float(bits, 4, 3, 7);
}

float f8e5m2_to_f32(uint8_t bits) {
  if ((bits & 0x7CU) == 0x7CU) {
    if ((bits & 3U) != 0) return std::numeric_limits<float>::quiet_NaN();
    const float inf = std::numeric_limits<float>::infinity();
    return (bits & 0x80U) != 0 ? -inf : inf;
  }
  return small_float(bits, 5, 2, 15);
}

uint8_t f32_to_f8e4m3(float value) {
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80U : 0U);
  const float magnitude = std::fabs(value);
  // 464 is the middle between 448 and what would be 480, but is NaN: the tie goes to the even 448.
  if (!(magnitude <= 464.0F)) return static_cast<uint8_t>(sign | 0x7FU);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int e = std::max(exponent - 1, -6);
  // Units of the last place at this exponent; nearbyint rounds ties to even.
  const float units = std::nearbyint(std::ldexp(magnitude, 3 - e));
  auto code = static_cast<unsigned>(units);
  code = code < 8 ? code : code - 8 + (static_cast<unsigned>(e + 7) << 3);
  return static_cast<uint8_t>(sign | code);
}

void convert_to_f32(DType from, const void* in, float* out, int64_t n) {
  const auto each = [&](auto&& value) {
    for (int64_t i = 0; i < n; ++i) out[i] = value(i);
  };
  switch (from) {
    case DType::F32:
      std::memcpy(out, in, static_cast<size_t>(n) * 4);
      return;
    case DType::F16:
      each([&](int64_t i) { return f16_to_f32(load<uint16_t>(in, i)); });
      return;
    case DType::BF16:
      each([&](int64_t i) { return bf16_to_f32(load<uint16_t>(in, i)); });
      return;
    case DType::F8E4M3:
      each([&](int64_t i) { return f8e4m3_to_f32(load<uint8_t>(in, i)); });
      return;
    case DType::F8E5M2:
      each([&](int64_t i) { return f8e5m2_to_f32(load<uint8_t>(in, i)); });
      return;
    case DType::I8:
      each([&](int64_t i) { return static_cast<float>(load<int8_t>(in, i)); });
      return;
    case DType::U8:
      each([&](int64_t i) { return static_cast<float>(load<uint8_t>(in, i)); });
      return;
    case DType::I16:
      each([&](int64_t i) { return static_cast<float>(load<int16_t>(in, i)); });
      return;
    case DType::U16:
      each([&](int64_t i) { return static_cast<float>(load<uint16_t>(in, i)); });
      return;
    case DType::I32:
      each([&](int64_t i) { return static_cast<float>(load<int32_t>(in, i)); });
      return;
    case DType::U32:
      each([&](int64_t i) { return static_cast<float>(load<uint32_t>(in, i)); });
      return;
    case DType::I64:
      each([&](int64_t i) { return static_cast<float>(load<int64_t>(in, i)); });
      return;
    case DType::U64:
      each([&](int64_t i) { return static_cast<float>(load<uint64_t>(in, i)); });
      return;
    case DType::F64:
      each([&](int64_t i) { return static_cast<float>(load<double>(in, i)); });
      return;
    case DType::Bool:
      each([&](int64_t i) { return load<uint8_t>(in, i) != 0 ? 1.0F : 0.0F; });
      return;
  }
}

void convert_from_f32(DType to, const float* in, void* out, int64_t n) {
  switch (to) {
    case DType::F32:
      std::memcpy(out, in, static_cast<size_t>(n) * 4);
      return;
    case DType::F16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(out)[i] = f32_to_f16(in[i]);
      return;
    case DType::BF16:
      for (int64_t i = 0; i < n; ++i) static_cast<uint16_t*>(out)[i] = f32_to_bf16(in[i]);
      return;
    case DType::F8E4M3:
      for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(out)[i] = f32_to_f8e4m3(in[i]);
      return;
    default:
      throw Error(Code::Unsupported,
                  std::string("conversion from f32 to ") + std::string(dtype_name(to)));
  }
}

}  // namespace mlxcel
