// What the kernels of mixture-of-experts ops are given; see op_table.h. Sizes have been checked;
// expert ids come from route() and are not checked again.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/experts.h"
#include "ops/kernel_table.h"
#include "ops/op_table.h"

namespace mlxcel::ops {

/// What pack_experts returns: expert e is a matrix of view().rows rows whose packed bytes begin at
/// view().data + e * stride().
class PlannedExperts final : public PackedExperts {
 public:
  PlannedExperts(MatrixView view, int64_t num_experts, int64_t stride, std::shared_ptr<Buffer> data,
                 LinearPlan plan, const Packing& packing)
      : view_(view),
        num_experts_(num_experts),
        stride_(stride),
        data_(std::move(data)),
        plan_(std::move(plan)),
        packing_(packing) {}
  int64_t num_experts() const override { return num_experts_; }
  int64_t rows() const override { return view_.rows; }
  int64_t cols() const override { return view_.cols; }
  int64_t bytes() const override { return data_->size(); }
  Device device() const override { return data_->device(); }
  const WeightFormat& format() const override { return view_.format; }
  const MatrixView& view() const { return view_; }
  int64_t stride() const { return stride_; }  // bytes
  const LinearPlan& plan() const { return plan_; }
  const Packing& packing() const { return packing_; }
  /// Rows [begin, begin + count) of one expert; `begin` must be a multiple of the packing's tile.
  MatrixView rows_of(int64_t expert, int64_t begin, int64_t count) const {
    MatrixView part = view_;
    part.rows = count;
    const int64_t offset =
        expert * stride_ + (begin > 0 ? packing_.bytes(view_.format, begin, view_.cols) : 0);
    part.data = static_cast<const std::byte*>(view_.data) + offset;
    return part;
  }

 private:
  MatrixView view_;
  int64_t num_experts_, stride_;
  std::shared_ptr<Buffer> data_;
  LinearPlan plan_;
  Packing packing_;
};

struct RouteArgs {
  RowView logits;               // [T, E]
  const float* bias = nullptr;  // [E] or null
  RouterOptions options;
  int32_t* ids = nullptr;    // [T, K]
  float* weights = nullptr;  // [T, K]
};

struct ExpertLinearArgs {
  const PlannedExperts* experts = nullptr;
  RowView x;                     // slot s reads row s / slots_per_row
  const int32_t* ids = nullptr;  // [slots]; null: slot s goes to expert s % num_experts
  int64_t slots = 0, slots_per_row = 1;
  const float* bias = nullptr;  // [E, rows] or null
  float* y = nullptr;           // [slots, rows]
};

struct CombineArgs {
  RowView y;                       // [tokens * choices, D]
  const float* weights = nullptr;  // [tokens, choices]; null = ones
  int64_t tokens = 0, choices = 0;
  float* out = nullptr;  // [tokens, D]
};

struct ScaleRowsArgs {
  RowView x;                       // row i of out is row i / per_row of x times factors[i]
  const float* factors = nullptr;  // [count]
  int64_t count = 0, per_row = 1;
  float* out = nullptr;  // [count, D]
};

struct ClampedSwigluArgs {
  RowView gate, up;  // [T, F]
  float alpha = 0, limit = 0;
  float* out = nullptr;  // [T, F]
};

}  // namespace mlxcel::ops
