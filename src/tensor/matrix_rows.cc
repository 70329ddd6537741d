#include "tensor/matrix_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlxcel {
namespace {

class SelectedRows final : public MatrixSource {
 public:
  SelectedRows(std::shared_ptr<const MatrixSource> source, std::vector<RowRange> ranges)
      : source_(std::move(source)), ranges_(std::move(ranges)) {
    for (const RowRange& r : ranges_) {
      if (r.begin < 0 || r.count < 0 || r.count > source_->rows() - r.begin) {
        throw Error(Code::InvalidArgument,
                    fmt::format("{}: rows [{}, {} + {}) of a matrix of {} rows", source_->name(),
                                r.begin, r.begin, r.count, source_->rows()));
      }
      starts_.push_back(rows_);
      rows_ += r.count;
    }
  }
  const WeightFormat& format() const override { return source_->format(); }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return source_->cols(); }
  const std::string& name() const override { return source_->name(); }
  int64_t stored_bytes() const override {
    return source_->rows() > 0 ? source_->stored_bytes() / source_->rows() * rows_ : 0;
  }

  void read_affine(int64_t row_begin, int64_t count, uint8_t* codes, float* scales,
                   float* biases) const override {
    const int64_t groups = cols() / format().group;
    for_runs(row_begin, count, [&](int64_t stored, int64_t n, int64_t at) {
      source_->read_affine(stored, n, codes + at * cols(), scales + at * groups,
                           biases + at * groups);
    });
  }
  void read_sub_scales(int64_t row_begin, int64_t count, const SubScales& out) const override {
    const int64_t groups = cols() / format().group, super_groups = cols() / kSuperGroup;
    for_runs(row_begin, count, [&](int64_t stored, int64_t n, int64_t at) {
      SubScales part = out;
      part.super_scales += at * super_groups;
      part.sub_scales += at * groups;
      if (part.super_biases != nullptr) part.super_biases += at * super_groups;
      if (part.sub_biases != nullptr) part.sub_biases += at * groups;
      source_->read_sub_scales(stored, n, part);
    });
  }
  void read_f32(int64_t row_begin, int64_t count, float* out) const override {
    for_runs(row_begin, count, [&](int64_t stored, int64_t n, int64_t at) {
      source_->read_f32(stored, n, out + at * cols());
    });
  }
  const void* dense_rows(int64_t row_begin) const override {
    return ranges_.size() == 1 ? source_->dense_rows(ranges_[0].begin + row_begin) : nullptr;
  }
  void release_rows(int64_t row_begin, int64_t count) const noexcept override {
    if (row_begin < 0 || count <= 0 || count > rows_ - row_begin) return;
    for_runs(row_begin, count,
             [&](int64_t stored, int64_t n, int64_t) { source_->release_rows(stored, n); });
  }

 private:
  /// Calls fn(first stored row, rows, offset from row_begin) for every run of stored rows.
  template <class Fn>
  void for_runs(int64_t row_begin, int64_t count, const Fn& fn) const {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const int64_t begin = std::max(row_begin, starts_[i]);
      const int64_t end = std::min(row_begin + count, starts_[i] + ranges_[i].count);
      if (begin < end) fn(ranges_[i].begin + begin - starts_[i], end - begin, begin - row_begin);
    }
  }

  std::shared_ptr<const MatrixSource> source_;
  std::vector<RowRange> ranges_;
  std::vector<int64_t> starts_;  // first selected row of each range
  int64_t rows_ = 0;
};

}  // namespace

std::shared_ptr<const MatrixSource> select_rows(std::shared_ptr<const MatrixSource> source,
                                                std::vector<RowRange> ranges) {
  return std::make_shared<SelectedRows>(std::move(source), std::move(ranges));
}

}  // namespace mlxcel
