#include "io/block_matrix.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

using Kind = WeightFormat::Kind;

int64_t group_of(Kind kind) { return kind == Kind::Nvfp4 ? 16 : kind == Kind::Fp8Block ? 128 : 32; }
int code_bits(Kind kind) { return kind == Kind::Mxfp4 || kind == Kind::Nvfp4 ? 4 : 8; }

/// E2M1 values are halves of integers from -12 to 12, so they are symmetric affine groups of five
/// bits, exactly. E4M3 values times their scale are dense bf16: exact with E8M0 scales, rounded
/// once with others.
WeightFormat format_of(const BlockPlanes& p) {
  if (code_bits(p.kind) == 8) return {.kind = Kind::Dense, .dense_type = DType::BF16};
  // Halves of E8M0 and E4M3 scales are exact in bf16; with a factor of the matrix they need f32.
  return {.kind = Kind::Affine,
          .bits = 5,
          .group = static_cast<uint16_t>(group_of(p.kind)),
          .scale_type = p.factor == 1.0F ? DType::BF16 : DType::F32,
          .symmetric = true};
}

void decode_scales(DType type, const std::byte* in, float* out, int64_t n) {
  if (type != DType::U8) return convert_to_f32(type, in, out, n);
  for (int64_t i = 0; i < n; ++i) out[i] = e8m0_to_f32(static_cast<uint8_t>(in[i]));
}

/// What matrices with one scale a group share.
class GroupedMatrix : public MatrixSource {
 public:
  GroupedMatrix(MatrixInfo info, const WeightFormat& format)
      : info_(std::move(info)), format_(format) {}
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return info_.rows; }
  int64_t cols() const override { return info_.cols; }
  const std::string& name() const override { return info_.name; }
  const void* dense_rows(int64_t) const override { return nullptr; }

 protected:
  void check_range(int64_t begin, int64_t count) const {
    MLXCEL_CHECK(begin >= 0 && count >= 0 && count <= rows() - begin,
                 "rows outside the matrix " + info_.name);
  }
  static void release(std::span<const std::byte> data,
                      const std::shared_ptr<const MappedFile>& file, int64_t rows, int64_t begin,
                      int64_t count) noexcept {
    if (file == nullptr || begin < 0 || count <= 0 || count > rows - begin) return;
    const size_t stride = data.size() / static_cast<size_t>(rows);
    file->release(
        data.subspan(static_cast<size_t>(begin) * stride, static_cast<size_t>(count) * stride));
  }
  MatrixInfo info_;
  WeightFormat format_;
};

class BlockMatrix final : public GroupedMatrix {
 public:
  BlockMatrix(MatrixInfo info, BlockPlanes planes)
      : GroupedMatrix(std::move(info), format_of(planes)),
        planes_(std::move(planes)),
        bits_(code_bits(planes_.kind)),
        group_(group_of(planes_.kind)),
        groups_(cols() / group_) {}
  int64_t stored_bytes() const override {
    return static_cast<int64_t>(planes_.codes.size() + planes_.scales.size());
  }
  void read_affine(int64_t begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    MLXCEL_CHECK(bits_ == 4, info_.name + ": read_affine() of a matrix that is not affine");
    read_codes(begin, count, codes);
    for (int64_t i = 0; i < count * cols(); ++i) {
      codes[i] = static_cast<uint8_t>(16.0F + 2.0F * e2m1_to_f32(codes[i]));
    }
    for (int64_t r = begin; r < begin + count; ++r) {
      read_scales(r, scales);
      for (int64_t g = 0; g < groups_; ++g, ++scales) {
        *scales *= 0.5F;
        *biases++ = -16.0F * *scales;
      }
    }
  }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    std::vector<uint8_t> codes(static_cast<size_t>(cols()));
    std::vector<float> scales(static_cast<size_t>(groups_));
    for (int64_t r = begin; r < begin + count; ++r, out += cols()) {
      read_codes(r, 1, codes.data());
      read_scales(r, scales.data());
      for (int64_t k = 0; k < cols(); ++k) {
        const uint8_t code = codes[static_cast<size_t>(k)];
        const float value = bits_ == 4 ? e2m1_to_f32(code) : f8e4m3_to_f32(code);
        out[k] = value * scales[static_cast<size_t>(k / group_)];
      }
    }
  }
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    release(planes_.codes, info_.file, rows(), begin, count);
    if (planes_.rows_per_scale == 1) {
      release(planes_.scales, planes_.scales_file, rows(), begin, count);
    }
  }

 private:
  void read_codes(int64_t begin, int64_t count, uint8_t* codes) const {
    check_range(begin, count);
    const int64_t row_bytes = cols() * bits_ / 8;
    if (count > 0 && cols() > 0) {
      unpack_bits(bits_, planes_.codes.data() + begin * row_bytes, count * cols(), codes);
    }
  }
  void read_scales(int64_t row, float* scales) const {
    const int64_t at = row / planes_.rows_per_scale * groups_;
    decode_scales(planes_.scale_type, planes_.scales.data() + at * size_of(planes_.scale_type),
                  scales, groups_);
    for (int64_t g = 0; g < groups_; ++g) scales[g] *= planes_.factor;
  }

  BlockPlanes planes_;
  int bits_;
  int64_t group_, groups_;
};

class TernaryMatrix final : public GroupedMatrix {
 public:
  static constexpr uint16_t kGroup = 128;
  TernaryMatrix(MatrixInfo info, std::span<const std::byte> codes, float scale)
      : GroupedMatrix(std::move(info),
                      {.kind = Kind::Affine, .bits = 2, .group = kGroup, .scale_type = DType::F32}),
        codes_(codes),
        scale_(scale) {}
  int64_t stored_bytes() const override { return static_cast<int64_t>(codes_.size()); }
  void read_affine(int64_t begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    check_range(begin, count);
    const int64_t packed_rows = rows() / 4;
    for (int64_t r = begin; r < begin + count; ++r) {
      const std::byte* row = codes_.data() + r % packed_rows * cols();
      const auto shift = static_cast<unsigned>(2 * (r / packed_rows));
      for (int64_t k = 0; k < cols(); ++k) {
        *codes++ = static_cast<uint8_t>((static_cast<unsigned>(row[k]) >> shift) & 3U);
      }
    }
    const int64_t groups = count * cols() / kGroup;
    std::fill_n(scales, groups, scale_);
    std::fill_n(biases, groups, -scale_);
  }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    std::vector<uint8_t> codes(static_cast<size_t>(cols()));
    std::vector<float> scales(static_cast<size_t>(cols() / kGroup)), biases(scales.size());
    for (int64_t r = begin; r < begin + count; ++r) {
      read_affine(r, 1, codes.data(), scales.data(), biases.data());
      for (const uint8_t code : codes) *out++ = scale_ * static_cast<float>(code) - scale_;
    }
  }
  // Each byte serves four rows far apart, so only a pass over the whole frees pages.
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    if (begin == 0 && count == rows()) release(codes_, info_.file, rows() / 4, 0, rows() / 4);
  }

 private:
  std::span<const std::byte> codes_;
  float scale_;
};

}  // namespace

float e2m1_to_f32(uint8_t code) {
  constexpr float kValues[] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                               -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  return kValues[code & 15U];
}

float e8m0_to_f32(uint8_t code) {
  if (code == 0) return 0x1p-127F;
  if (code == 255) return std::bit_cast<float>(0x7FC00000U);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

std::shared_ptr<const MatrixSource> block_matrix(MatrixInfo info, BlockPlanes planes) {
  const int64_t group = group_of(planes.kind);
  const int64_t scale_rows = (info.rows + planes.rows_per_scale - 1) / planes.rows_per_scale;
  const int64_t code_bytes = info.rows * info.cols * code_bits(planes.kind) / 8;
  const int64_t scale_bytes = scale_rows * (info.cols / group) * size_of(planes.scale_type);
  if (info.cols % group != 0 || code_bytes != static_cast<int64_t>(planes.codes.size()) ||
      scale_bytes != static_cast<int64_t>(planes.scales.size())) {
    throw Error(Code::Corrupt,
                fmt::format("matrix {} of {} x {} in groups of {} does not fit {} bytes of codes "
                            "and {} of scales",
                            quote(info.name), info.rows, info.cols, group, planes.codes.size(),
                            planes.scales.size()));
  }
  return std::make_shared<BlockMatrix>(std::move(info), std::move(planes));
}

std::shared_ptr<const MatrixSource> ternary_matrix(MatrixInfo info,
                                                   std::span<const std::byte> codes, float scale) {
  if (info.rows % 4 != 0 || info.cols % TernaryMatrix::kGroup != 0 ||
      info.rows / 4 * info.cols != static_cast<int64_t>(codes.size())) {
    throw Error(Code::Corrupt, fmt::format("ternary matrix {} of {} x {} does not fit {} bytes",
                                           quote(info.name), info.rows, info.cols, codes.size()));
  }
  return std::make_shared<TernaryMatrix>(std::move(info), codes, scale);
}

}  // namespace mlxcel::io
