#include "io/matrix_sources.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "io/bit_spread.h"
#include "io/gguf_blocks.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

class Base : public MatrixSource {
 public:
  Base(MatrixInfo info, WeightFormat format) : info_(std::move(info)), format_(format) {}
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return info_.rows; }
  int64_t cols() const override { return info_.cols; }
  const std::string& name() const override { return info_.name; }
  void read_affine(int64_t, int64_t, uint8_t*, float*, float*) const override {
    throw Error(Code::Internal, info_.name + ": read_affine() of a matrix that is not affine");
  }
  const void* dense_rows(int64_t) const override { return nullptr; }

 protected:
  /// Whether there is anything to read; callers of an empty range may pass null pointers.
  bool check_range(int64_t begin, int64_t count) const {
    MLXCEL_CHECK(begin >= 0 && count >= 0 && count <= rows() - begin,
                 "rows outside the matrix " + info_.name);
    return count > 0 && cols() > 0;
  }
  /// Drops the pages of the rows' bytes; of a reordered matrix, those of the whole heads touched.
  void release(std::span<const std::byte> data, const std::shared_ptr<const MappedFile>& file,
               int64_t begin, int64_t count) const noexcept {
    if (file == nullptr || rows() == 0 || begin < 0 || count <= 0 || count > rows() - begin) return;
    int64_t end = begin + count;
    if (info_.order.heads > 0) {
      const int64_t dim = rows() / info_.order.heads;
      begin = begin / dim * dim;
      end = (end + dim - 1) / dim * dim;
    }
    const size_t stride = data.size() / static_cast<size_t>(rows());
    file->release(data.subspan(static_cast<size_t>(begin) * stride,
                               static_cast<size_t>(end - begin) * stride));
  }

  MatrixInfo info_;
  WeightFormat format_;
};

class DenseMatrix final : public Base {
 public:
  DenseMatrix(MatrixInfo info, DType type, std::span<const std::byte> data)
      : Base(std::move(info), {.kind = WeightFormat::Kind::Dense, .dense_type = type}),
        data_(data),
        stride_(cols() * size_of(type)),
        aligned_(reinterpret_cast<uintptr_t>(data.data()) % static_cast<uintptr_t>(size_of(type)) ==
                 0) {}
  int64_t stored_bytes() const override { return static_cast<int64_t>(data_.size()); }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    if (!check_range(begin, count)) return;
    if (info_.order.heads == 0) {
      convert_to_f32(format_.dense_type, row(begin), out, count * cols());
      return;
    }
    for (int64_t r = begin; r < begin + count; ++r, out += cols()) {
      convert_to_f32(format_.dense_type, row(info_.order.stored(r)), out, cols());
    }
  }
  const void* dense_rows(int64_t begin) const override {
    check_range(begin, 0);
    return info_.order.heads == 0 && aligned_ ? row(begin) : nullptr;
  }
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    release(data_, info_.file, begin, count);
  }

 private:
  const std::byte* row(int64_t r) const { return data_.data() + r * stride_; }
  std::span<const std::byte> data_;
  int64_t stride_;
  bool aligned_;
};

class ZeroMatrix final : public Base {
 public:
  explicit ZeroMatrix(MatrixInfo info)
      : Base(std::move(info), {.kind = WeightFormat::Kind::Dense, .dense_type = DType::F32}) {}
  int64_t stored_bytes() const override { return 0; }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    if (!check_range(begin, count)) return;
    std::fill_n(out, count * cols(), 0.0F);
  }
  void release_rows(int64_t, int64_t) const noexcept override {}
};

// Values of affine formats are computed the same way whatever the packing.
class AffineMatrix : public Base {
 public:
  using Base::Base;
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    if (!check_range(begin, count)) return;
    const auto width = static_cast<size_t>(cols());
    const int64_t group = format_.group;
    std::vector<uint8_t> codes(width);
    std::vector<float> scales(width / static_cast<size_t>(group)), biases(scales.size());
    for (int64_t r = begin; r < begin + count; ++r) {
      read_affine(r, 1, codes.data(), scales.data(), biases.data());
      const uint8_t* code = codes.data();
      for (size_t g = 0; g < scales.size(); ++g) {
        const float scale = scales[g], bias = biases[g];
        for (int64_t i = 0; i < group; ++i) *out++ = scale * static_cast<float>(*code++) + bias;
      }
    }
  }
};

class GgufBlockMatrix final : public AffineMatrix {
 public:
  GgufBlockMatrix(MatrixInfo info, const GgmlTraits& traits, std::span<const std::byte> data)
      : AffineMatrix(std::move(info), traits.format),
        traits_(traits),
        data_(data),
        blocks_(cols() / traits.block) {}
  int64_t stored_bytes() const override { return static_cast<int64_t>(data_.size()); }
  void read_affine(int64_t begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    if (!check_range(begin, count)) return;
    if (info_.order.heads == 0) {
      traits_.unpack(row(begin), blocks_ * count, codes, scales, biases);
      return;
    }
    const int64_t groups = cols() / format_.group;
    for (int64_t r = begin; r < begin + count; ++r) {
      traits_.unpack(row(info_.order.stored(r)), blocks_, codes, scales, biases);
      codes += cols();
      scales += groups;
      biases += groups;
    }
  }
  void read_sub_scales(int64_t begin, int64_t count, const SubScales& out) const override {
    if (traits_.sub_scales == nullptr) return Base::read_sub_scales(begin, count, out);
    if (!check_range(begin, count)) return;
    const int64_t groups = cols() / format_.group;
    SubScales at = out;
    for (int64_t r = begin; r < begin + count; ++r) {
      traits_.sub_scales(row(info_.order.stored(r)), blocks_, at);
      at.super_scales += blocks_;
      at.sub_scales += groups;
      if (at.super_biases != nullptr) at.super_biases += blocks_;
      if (at.sub_biases != nullptr) at.sub_biases += groups;
    }
  }
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    release(data_, info_.file, begin, count);
  }

 private:
  const std::byte* row(int64_t r) const { return data_.data() + r * blocks_ * traits_.block_bytes; }
  const GgmlTraits& traits_;  // a row of the static table
  std::span<const std::byte> data_;
  int64_t blocks_;  // in a row
};

class MlxMatrix final : public AffineMatrix {
 public:
  MlxMatrix(MatrixInfo info, MlxPlanes planes)
      : AffineMatrix(
            std::move(info),
            {.kind = WeightFormat::Kind::Affine,
             .bits = planes.bits,
             .group = planes.group,
             .scale_type = planes.scale_type == planes.bias_type ? planes.scale_type : DType::F32}),
        planes_(std::move(planes)) {}
  int64_t stored_bytes() const override {
    return static_cast<int64_t>(planes_.codes.size() + planes_.scales.size() +
                                planes_.biases.size());
  }
  void read_affine(int64_t begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    if (!check_range(begin, count)) return;
    const int64_t row_bytes = cols() * planes_.bits / 8, groups = cols() / planes_.group;
    unpack_bits(planes_.bits, planes_.codes.data() + begin * row_bytes, count * cols(), codes);
    convert_to_f32(planes_.scale_type,
                   planes_.scales.data() + begin * groups * size_of(planes_.scale_type), scales,
                   count * groups);
    convert_to_f32(planes_.bias_type,
                   planes_.biases.data() + begin * groups * size_of(planes_.bias_type), biases,
                   count * groups);
  }
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    release(planes_.codes, info_.file, begin, count);
    release(planes_.scales, planes_.scales_file, begin, count);
    release(planes_.biases, planes_.biases_file, begin, count);
  }

 private:
  MlxPlanes planes_;
};

void check_order(const MatrixInfo& info) {
  const int64_t heads = info.order.heads;
  if (heads > 0 && (info.rows % heads != 0 || info.rows / heads % 2 != 0)) {
    throw Error(Code::Corrupt, fmt::format("tensor {}: {} rows do not divide into {} rotary heads",
                                           quote(info.name), info.rows, heads));
  }
}

// The whole stream is read in pieces of B bytes, eight codes each.
template <int B>
void unpack(const std::byte* in, int64_t count, uint8_t* out) {
  const int64_t pieces = count / 8;
  int64_t i = 0;
  // Eight-byte loads while they stay inside the stream.
  for (; i + 8 / B < pieces; ++i, in += B, out += 8) {
    uint64_t x = 0;
    std::memcpy(&x, in, 8);
    x = spread8<B>(x);
    std::memcpy(out, &x, 8);
  }
  for (; i < pieces; ++i, in += B, out += 8) {
    uint64_t x = 0;
    std::memcpy(&x, in, B);
    x = spread8<B>(x);
    std::memcpy(out, &x, 8);
  }
}

}  // namespace

void unpack_bits(int bits, const std::byte* in, int64_t count, uint8_t* out) {
  switch (bits) {
    case 1:
      return unpack<1>(in, count, out);
    case 2:
      return unpack<2>(in, count, out);
    case 3:
      return unpack<3>(in, count, out);
    case 4:
      return unpack<4>(in, count, out);
    case 5:
      return unpack<5>(in, count, out);
    case 6:
      return unpack<6>(in, count, out);
    case 8:
      if (count > 0) std::memcpy(out, in, static_cast<size_t>(count));
      return;
    default:
      throw Error(Code::Internal, "codes of an unknown width");
  }
}

std::shared_ptr<const MatrixSource> dense_matrix(MatrixInfo info, DType type,
                                                 std::span<const std::byte> data) {
  check_order(info);
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16 && type != DType::F8E4M3) {
    throw Error(Code::Unsupported,
                fmt::format("tensor {}: a matrix of {} elements is not supported", quote(info.name),
                            dtype_name(type)));
  }
  return std::make_shared<DenseMatrix>(std::move(info), type, data);
}

std::shared_ptr<const MatrixSource> zero_matrix(MatrixInfo info) {
  return std::make_shared<ZeroMatrix>(std::move(info));
}

std::shared_ptr<const MatrixSource> gguf_block_matrix(MatrixInfo info, const GgmlTraits& traits,
                                                      std::span<const std::byte> data) {
  check_order(info);
  return std::make_shared<GgufBlockMatrix>(std::move(info), traits, data);
}

std::shared_ptr<const MatrixSource> mlx_matrix(MatrixInfo info, MlxPlanes planes) {
  return std::make_shared<MlxMatrix>(std::move(info), std::move(planes));
}

}  // namespace mlxcel::io
