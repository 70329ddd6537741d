// The definition of every op: scalar loops that accumulate in f64, one at a time, sharing nothing
// with the fast kernels. Tests compare those with these.
#pragma once

#include <vector>

#include "ops/op_table.h"
#include "tensor/matrix_source.h"

namespace mlxcel::ref {

/// Every entry of the table but expert_linear, which reads packed bytes.
const ops::OpTable& op_table();

/// y [m, rows] = x [m, cols] W^T + bias. Affine weights are scale * code + bias in f64.
void linear(const float* x, int64_t m, const MatrixSource& w, const float* bias, float* y);

/// y [slots, rows]: slot s is row s / slots_per_row of x times expert ids[s], plus its row of bias
/// [E, rows] unless null.
void expert_linear(const float* x, int64_t slots, int64_t slots_per_row, const int32_t* ids,
                   const std::vector<const MatrixSource*>& experts, const float* bias, float* y);

// One file each.
void rms_norm(const ops::NormArgs& a);
void layer_norm(const ops::NormArgs& a);
void rope(const ops::RopeArgs& a);
void kv_append(const ops::KvAppendArgs& a);
void attention(const ops::AttentionArgs& a);
void route(const ops::RouteArgs& a);
void register_elementwise(ops::OpTable& table);
void register_experts(ops::OpTable& table);
void register_recurrent(ops::RecurrentTable& table);

}  // namespace mlxcel::ref
