// Conversions against the definitions of the formats, for every code: IEEE 754 binary16, bfloat16,
// and OCP 8-bit floats (E4M3 without infinities, E5M2).
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/error.h"

namespace mlxcel {
namespace {

// What a format of `exponent` and `mantissa` bits says, in f64, which holds all values exactly.
struct Format {
  int exponent, mantissa;
  bool infinities;

  int bias() const { return (1 << (exponent - 1)) - 1; }
  unsigned codes() const { return 1U << (exponent + mantissa); }  // without the sign
  double magnitude(unsigned code) const {
    const int e = static_cast<int>(code >> mantissa);
    const unsigned m = code & ((1U << mantissa) - 1);
    const int top = (1 << exponent) - 1;
    if (infinities && e == top) return m == 0 ? INFINITY : NAN;
    if (!infinities && code == codes() - 1) return NAN;
    const double fraction = m / static_cast<double>(1U << mantissa);
    return e == 0 ? std::ldexp(fraction, 1 - bias()) : std::ldexp(1 + fraction, e - bias());
  }
  double value(unsigned bits) const {
    const double v = magnitude(bits & (codes() - 1));
    return (bits & codes()) != 0 ? -v : v;
  }
};
constexpr Format kF16{5, 10, true}, kBf16{8, 7, true}, kE4m3{4, 3, false}, kE5m2{5, 2, true};

void expect_value(float got, double want, unsigned bits) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << std::hex << bits;
    return;
  }
  EXPECT_EQ(static_cast<double>(got), want) << std::hex << bits;
  EXPECT_EQ(std::signbit(got), std::signbit(want)) << std::hex << bits;
}

TEST(DType, EveryCodeHasTheValueOfItsDefinition) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    expect_value(f16_to_f32(static_cast<uint16_t>(bits)), kF16.value(bits), bits);
    expect_value(bf16_to_f32(static_cast<uint16_t>(bits)), kBf16.value(bits), bits);
  }
  for (unsigned bits = 0; bits < 0x100; ++bits) {
    expect_value(f8e4m3_to_f32(static_cast<uint8_t>(bits)), kE4m3.value(bits), bits);
    expect_value(f8e5m2_to_f32(static_cast<uint8_t>(bits)), kE5m2.value(bits), bits);
  }
}

// Between each code and the next: just below, at and just above the middle, both signs.
template <class Narrow>
void check_rounding(const Format& format, Narrow narrow) {
  const unsigned sign = format.codes();
  const auto same = [&](float value, unsigned want) {
    EXPECT_EQ(narrow(value), want) << value;
    EXPECT_EQ(narrow(-value), want | sign) << -value;
  };
  for (unsigned code = 0; code + 1 < format.codes(); ++code) {
    const double here = format.magnitude(code);
    if (!std::isfinite(here)) break;
    same(static_cast<float>(here), code);
    double next = format.magnitude(code + 1);
    // Beyond the last finite value the steps go on as far as rounding is concerned.
    if (!std::isfinite(next)) next = here + (here - format.magnitude(code - 1));
    const double exact = here + (next - here) / 2;
    const auto middle = static_cast<float>(exact);
    ASSERT_EQ(static_cast<double>(middle), exact);
    same(middle, code % 2 == 0 ? code : code + 1);
    same(std::nextafterf(middle, 0.0F), code);
    same(std::nextafterf(middle, INFINITY), code + 1);
  }
}

TEST(DType, NarrowingRoundsToNearestEven) {
  check_rounding(kF16, f32_to_f16);
  check_rounding(kE4m3, f32_to_f8e4m3);
}

TEST(DType, Bf16RoundsToNearestEven) {
  // bf16 subnormals end below f32's last bit in the middle, so bits are compared, not values.
  for (unsigned code = 0; code < 0x7F80; ++code) {
    for (const unsigned rest : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const bool up = rest > 0x8000 || (rest == 0x8000 && code % 2 == 1);
      const unsigned want = code + (up ? 1 : 0);
      EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(code << 16 | rest)), want);
      EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x80000000U | code << 16 | rest)), 0x8000U | want);
    }
  }
}

TEST(DType, SpecialValuesSurviveNarrowing) {
  // A NaN whose payload lies only in the bits that are cut off must not become an infinity.
  const auto quiet = std::numeric_limits<float>::quiet_NaN();
  for (const float nan : {quiet, -quiet, std::bit_cast<float>(0x7F800001U)}) {
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(nan))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(nan))));
    EXPECT_TRUE(std::isnan(f8e4m3_to_f32(f32_to_f8e4m3(nan))));
  }
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(f16_to_f32(f32_to_f16(sign * INFINITY)), sign * INFINITY);
    EXPECT_EQ(f16_to_f32(f32_to_f16(sign * 1e30F)), sign * INFINITY);
    EXPECT_EQ(bf16_to_f32(f32_to_bf16(sign * INFINITY)), sign * INFINITY);
    EXPECT_EQ(bf16_to_f32(f32_to_bf16(sign * std::numeric_limits<float>::max())), sign * INFINITY);
    EXPECT_TRUE(std::isnan(f8e4m3_to_f32(f32_to_f8e4m3(sign * INFINITY))));
  }
}

template <class T>
void check_integers(DType type, const std::vector<T>& values) {
  ASSERT_EQ(size_of(type), static_cast<int64_t>(sizeof(T))) << dtype_name(type);
  // One byte off, as tensors of a file may be.
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<std::byte> memory(1);
  memory.insert(memory.end(), bytes.begin(), bytes.end());
  std::vector<float> out(values.size());
  convert_to_f32(type, memory.data() + 1, out.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(out[i], static_cast<float>(values[i])) << dtype_name(type);
  }
}

TEST(DType, EveryTypeConvertsToF32) {
  check_integers<int8_t>(DType::I8, {-128, -1, 0, 127});
  check_integers<uint8_t>(DType::U8, {0, 1, 255});
  check_integers<int16_t>(DType::I16, {-32768, 7, 32767});
  check_integers<uint16_t>(DType::U16, {0, 65535});
  check_integers<int32_t>(DType::I32, {INT32_MIN, -3, INT32_MAX});
  check_integers<uint32_t>(DType::U32, {0, UINT32_MAX});
  check_integers<int64_t>(DType::I64, {INT64_MIN, 5, INT64_MAX});
  check_integers<uint64_t>(DType::U64, {0, UINT64_MAX});
  check_integers<double>(DType::F64, {0.1, -1e300, 1e-320});
  check_integers<float>(DType::F32, {0.1F, -1e-40F});
  const uint8_t flags[] = {0, 1, 2};
  float out[3];
  convert_to_f32(DType::Bool, flags, out, 3);
  EXPECT_EQ(out[0], 0.0F);
  EXPECT_EQ(out[1], 1.0F);
  EXPECT_EQ(out[2], 1.0F);
}

TEST(DType, ArraysConvertAsScalarsDo) {
  const std::vector<float> in = {0.1F, -3.7F, 447.0F, 1e-9F};
  for (const DType type : {DType::F16, DType::BF16, DType::F8E4M3, DType::F32}) {
    std::vector<char> narrow(in.size() * 4);
    std::vector<float> back(in.size());
    convert_from_f32(type, in.data(), narrow.data(), 4);
    convert_to_f32(type, narrow.data(), back.data(), 4);
    for (size_t i = 0; i < in.size(); ++i) {
      const float want = type == DType::F16      ? f16_to_f32(f32_to_f16(in[i]))
                         : type == DType::BF16   ? bf16_to_f32(f32_to_bf16(in[i]))
                         : type == DType::F8E4M3 ? f8e4m3_to_f32(f32_to_f8e4m3(in[i]))
                                                 : in[i];
      EXPECT_EQ(back[i], want) << dtype_name(type);
    }
  }
  float x = 1;
  int64_t place = 0;
  for (const DType type : {DType::F8E5M2, DType::I8, DType::U8, DType::I16, DType::U16, DType::I32,
                           DType::U32, DType::I64, DType::U64, DType::F64, DType::Bool}) {
    try {
      convert_from_f32(type, &x, &place, 1);
      ADD_FAILURE() << dtype_name(type);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Unsupported);
      EXPECT_NE(e.message().find(dtype_name(type)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace mlxcel
