// The definition of every op: scalar loops that accumulate in f64, one at a time, sharing nothing
// with the fast kernels. Tests compare those with these.
#pragma once

#include "ops/op_table.h"
#include "tensor/matrix_source.h"

namespace mlxcel::ref {

/// Every entry of the table.
const ops::OpTable& op_table();

/// y [m, rows] = x [m, cols] W^T + bias. Affine weights are scale * code + bias in f64.
void linear(const float* x, int64_t m, const MatrixSource& w, const float* bias, float* y);

// One file each.
void rms_norm(const ops::NormArgs& a);
void layer_norm(const ops::NormArgs& a);
void rope(const ops::RopeArgs& a);
void kv_append(const ops::KvAppendArgs& a);
void attention(const ops::AttentionArgs& a);
void register_elementwise(ops::OpTable& table);

}  // namespace mlxcel::ref
