#include "tensor/matrix_views.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace mlxcel {
namespace {

class RowsView final : public MatrixSource {
 public:
  RowsView(std::shared_ptr<const MatrixSource> source, int64_t begin, int64_t count, int64_t step)
      : source_(std::move(source)), begin_(begin), count_(count), step_(step) {}
  const WeightFormat& format() const override { return source_->format(); }
  int64_t rows() const override { return count_; }
  int64_t cols() const override { return source_->cols(); }
  const std::string& name() const override { return source_->name(); }
  int64_t stored_bytes() const override {
    return source_->rows() > 0 ? source_->stored_bytes() / source_->rows() * count_ : 0;
  }
  void read_affine(int64_t begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    const int64_t groups = cols() / std::max<int64_t>(1, format().group);
    runs(begin, count, [&](int64_t row, int64_t n) {
      source_->read_affine(row, n, codes, scales, biases);
      codes += n * cols();
      scales += n * groups;
      biases += n * groups;
    });
  }
  void read_sub_scales(int64_t begin, int64_t count, const SubScales& out) const override {
    SubScales at = out;
    const int64_t groups = cols() / std::max<int64_t>(1, format().group);
    runs(begin, count, [&](int64_t row, int64_t n) {
      source_->read_sub_scales(row, n, at);
      at.super_scales += n * cols() / kSuperGroup;
      at.sub_scales += n * groups;
      if (at.super_biases != nullptr) at.super_biases += n * cols() / kSuperGroup;
      if (at.sub_biases != nullptr) at.sub_biases += n * groups;
    });
  }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    runs(begin, count, [&](int64_t row, int64_t n) {
      source_->read_f32(row, n, out);
      out += n * cols();
    });
  }
  const void* dense_rows(int64_t begin) const override {
    const bool plain = step_ == 1 && format().kind == WeightFormat::Kind::Dense;
    return plain ? source_->dense_rows(begin_ + begin) : nullptr;
  }
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    if (count > 0) source_->release_rows(begin_ + begin * step_, (count - 1) * step_ + 1);
  }

 private:
  /// Calls fn(first row of the source, rows) for stretches that follow one another there.
  template <class Fn>
  void runs(int64_t begin, int64_t count, const Fn& fn) const {
    MLXCEL_CHECK(begin >= 0 && count >= 0 && count <= count_ - begin,
                 "rows outside the part of matrix " + name());
    if (step_ == 1) {
      if (count > 0) fn(begin_ + begin, count);
      return;
    }
    for (int64_t r = begin; r < begin + count; ++r) fn(begin_ + r * step_, 1);
  }

  std::shared_ptr<const MatrixSource> source_;
  int64_t begin_, count_, step_;
};

class Transposed final : public MatrixSource {
 public:
  explicit Transposed(std::shared_ptr<const MatrixSource> source) : source_(std::move(source)) {
    const WeightFormat& format = source_->format();
    format_.dense_type = format.kind == WeightFormat::Kind::Dense ? format.dense_type : DType::F32;
  }
  const WeightFormat& format() const override { return format_; }
  int64_t rows() const override { return source_->cols(); }
  int64_t cols() const override { return source_->rows(); }
  const std::string& name() const override { return source_->name(); }
  int64_t stored_bytes() const override { return source_->stored_bytes(); }
  void read_affine(int64_t, int64_t, uint8_t*, float*, float*) const override {
    throw Error(Code::Internal, name() + ": read_affine() of a transposed matrix");
  }
  void read_f32(int64_t begin, int64_t count, float* out) const override {
    MLXCEL_CHECK(begin >= 0 && count >= 0 && count <= rows() - begin,
                 "rows outside the matrix " + name());
    const int64_t size = size_of(format_.dense_type);
    const bool dense = source_->format().kind == WeightFormat::Kind::Dense;
    std::vector<float> row(static_cast<size_t>(rows()));
    for (int64_t k = 0; k < cols(); ++k) {
      // One element a row is all that is needed; coded rows must be decoded whole.
      const void* stored = dense ? source_->dense_rows(k) : nullptr;
      if (stored != nullptr) {
        convert_to_f32(format_.dense_type, static_cast<const std::byte*>(stored) + begin * size,
                       row.data() + begin, count);
      } else {
        source_->read_f32(k, 1, row.data());
      }
      for (int64_t r = 0; r < count; ++r) {
        out[r * cols() + k] = row[static_cast<size_t>(begin + r)];
      }
    }
  }
  const void* dense_rows(int64_t) const override { return nullptr; }
  // Every row is made of all of the source's rows.
  void release_rows(int64_t begin, int64_t count) const noexcept override {
    if (begin + count == rows()) source_->release_rows(0, cols());
  }

 private:
  std::shared_ptr<const MatrixSource> source_;
  WeightFormat format_;
};

}  // namespace

std::shared_ptr<const MatrixSource> matrix_rows(std::shared_ptr<const MatrixSource> source,
                                                int64_t begin, int64_t count, int64_t step) {
  const int64_t rows = source->rows();
  if (begin < 0 || count < 0 || step < 1 || begin > rows ||
      (count > 0 && (begin >= rows || (count - 1) > (rows - 1 - begin) / step))) {
    throw Error(Code::InvalidArgument, fmt::format("{} rows from {} on in steps of {} of {}, which "
                                                   "has {}",
                                                   count, begin, step, source->name(), rows));
  }
  return std::make_shared<RowsView>(std::move(source), begin, count, step);
}

std::shared_ptr<const MatrixSource> transposed(std::shared_ptr<const MatrixSource> source) {
  return std::make_shared<Transposed>(std::move(source));
}

}  // namespace mlxcel
