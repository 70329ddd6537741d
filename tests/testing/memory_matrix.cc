#include "testing/memory_matrix.h"

#include <algorithm>
#include <cmath>

namespace mlxcel::testing {
namespace {

uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

float rounded(DType type, float value) {
  uint32_t bits = 0;
  float out = 0;
  convert_from_f32(type, &value, &bits, 1);
  convert_to_f32(type, &bits, &out, 1);
  return out;
}

}  // namespace

std::vector<float> random_floats(int64_t n, uint64_t seed) {
  std::vector<float> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = splitmix64(seed * 0x100000001B3ULL + i) >> 40;
    out[i] = static_cast<float>(bits) * 0x1p-23F - 1.0F;
  }
  return out;
}

WeightFormat dense_format(DType type) {
  WeightFormat f;
  f.dense_type = type;
  return f;
}

WeightFormat affine_format(int bits, int group, DType scale_type, bool symmetric) {
  WeightFormat f;
  f.kind = WeightFormat::Kind::Affine;
  f.bits = static_cast<uint8_t>(bits);
  f.group = static_cast<uint16_t>(group);
  f.scale_type = scale_type;
  f.symmetric = symmetric;
  return f;
}

MemoryMatrix::MemoryMatrix(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed)
    : format_(format), rows_(rows), cols_(cols), released_(static_cast<size_t>(rows)) {
  const int64_t n = rows * cols;
  if (format.kind == WeightFormat::Kind::Dense) {
    const auto values = random_floats(n, seed);
    dense_.resize(static_cast<size_t>(n * size_of(format.dense_type)));
    convert_from_f32(format.dense_type, values.data(), dense_.data(), n);
    return;
  }
  codes_.resize(static_cast<size_t>(n));
  for (size_t i = 0; i < codes_.size(); ++i) {
    codes_[i] = static_cast<uint8_t>(splitmix64(seed * 31 + i) & ((1U << format.bits) - 1));
  }
  const auto scales = random_floats(n / format.group, seed + 1);
  const auto shifts = random_floats(n / format.group, seed + 2);
  const float middle = std::ldexp(1.0F, format.bits - 1);
  for (size_t g = 0; g < scales.size(); ++g) {
    const float scale = rounded(format.scale_type, (1.5F + scales[g]) / middle);
    scales_.push_back(scale);
    biases_.push_back(format.symmetric
                          ? -scale * middle
                          : rounded(format.scale_type, scale * middle * (shifts[g] * 0.2F - 1)));
  }
}

int64_t MemoryMatrix::stored_bytes() const {
  if (format_.kind == WeightFormat::Kind::Dense) return static_cast<int64_t>(dense_.size());
  const auto groups = static_cast<int64_t>(scales_.size());
  return rows_ * cols_ * format_.bits / 8 +
         groups * size_of(format_.scale_type) * (format_.symmetric ? 1 : 2);
}

void MemoryMatrix::read_affine(int64_t row_begin, int64_t count, uint8_t* codes, float* scales,
                               float* biases) const {
  const int64_t groups = cols_ / format_.group;
  std::copy_n(codes_.begin() + row_begin * cols_, count * cols_, codes);
  std::copy_n(scales_.begin() + row_begin * groups, count * groups, scales);
  std::copy_n(biases_.begin() + row_begin * groups, count * groups, biases);
}

void MemoryMatrix::read_f32(int64_t row_begin, int64_t count, float* out) const {
  if (format_.kind == WeightFormat::Kind::Dense) {
    const auto at = static_cast<size_t>(row_begin * cols_ * size_of(format_.dense_type));
    convert_to_f32(format_.dense_type, dense_.data() + at, out, count * cols_);
    return;
  }
  for (int64_t i = row_begin * cols_; i < (row_begin + count) * cols_; ++i) {
    const auto g = static_cast<size_t>(i / format_.group);
    *out++ = scales_[g] * static_cast<float>(codes_[static_cast<size_t>(i)]) + biases_[g];
  }
}

const void* MemoryMatrix::dense_rows(int64_t row_begin) const {
  if (scattered) return nullptr;
  return dense_.data() + row_begin * cols_ * size_of(format_.dense_type);
}

void MemoryMatrix::release_rows(int64_t row_begin, int64_t count) const noexcept {
  for (int64_t r = row_begin; r < row_begin + count; ++r) released_[static_cast<size_t>(r)] = true;
}

}  // namespace mlxcel::testing
