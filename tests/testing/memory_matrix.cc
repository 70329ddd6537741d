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

WeightFormat k_quant_format(int bits) {
  const bool symmetric = bits == 3 || bits == 6;
  WeightFormat f = affine_format(bits, bits == 4 || bits == 5 ? 32 : 16, DType::F32, symmetric);
  f.sub_scale_bits = bits == 2 ? 4 : bits == 6 ? 8 : 6;
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
  if (format.sub_scale_bits > 0) {
    make_sub_scales(seed);
    return;
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

// Integers of every size a format has, zero included, and super-scales of both signs.
void MemoryMatrix::make_sub_scales(uint64_t seed) {
  const auto supers = static_cast<size_t>(rows_ * cols_ / kSuperGroup);
  const auto values = random_floats(static_cast<int64_t>(2 * supers), seed + 1);
  for (size_t i = 0; i < supers; ++i) {
    super_scales_.push_back(f32_to_f16(values[i] * 0.05F));
    super_biases_.push_back(f32_to_f16(values[supers + i] * 0.05F));
  }
  const int bits = format_.sub_scale_bits;
  const int range = 1 << bits;
  const int lowest = bits == 8 || (bits == 6 && format_.symmetric) ? -range / 2 : 0;
  const auto groups = static_cast<size_t>(rows_ * cols_ / format_.group);
  const float middle = std::ldexp(1.0F, format_.bits - 1);
  for (size_t g = 0; g < groups; ++g) {
    const uint64_t random = splitmix64(seed * 77 + g);
    const auto r = static_cast<uint64_t>(range);
    sub_scales_.push_back(static_cast<int8_t>(static_cast<int>(random % r) + lowest));
    sub_biases_.push_back(static_cast<int8_t>((random >> 32) % r));
    const size_t s = g / static_cast<size_t>(kSuperGroup / format_.group);
    scales_.push_back(f16_to_f32(super_scales_[s]) * static_cast<float>(sub_scales_[g]));
    biases_.push_back(format_.symmetric
                          ? -scales_[g] * middle
                          : f16_to_f32(super_biases_[s]) * static_cast<float>(sub_biases_[g]));
  }
}

void MemoryMatrix::read_sub_scales(int64_t row_begin, int64_t count, const SubScales& out) const {
  if (format_.sub_scale_bits == 0) return MatrixSource::read_sub_scales(row_begin, count, out);
  const int64_t supers = cols_ / kSuperGroup, groups = cols_ / format_.group;
  std::copy_n(super_scales_.begin() + row_begin * supers, count * supers, out.super_scales);
  std::copy_n(sub_scales_.begin() + row_begin * groups, count * groups, out.sub_scales);
  if (format_.symmetric) return;
  std::copy_n(super_biases_.begin() + row_begin * supers, count * supers, out.super_biases);
  std::copy_n(sub_biases_.begin() + row_begin * groups, count * groups, out.sub_biases);
}

int64_t MemoryMatrix::stored_bytes() const {
  if (format_.kind == WeightFormat::Kind::Dense) return static_cast<int64_t>(dense_.size());
  const auto groups = static_cast<int64_t>(scales_.size());
  if (format_.sub_scale_bits > 0) {
    const int64_t levels =
        groups * format_.sub_scale_bits / 8 + static_cast<int64_t>(super_scales_.size()) * 2;
    return rows_ * cols_ * format_.bits / 8 + levels * (format_.symmetric ? 1 : 2);
  }
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
