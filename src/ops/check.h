// Argument checks shared by the ops.
#pragma once

#include <string>
#include <string_view>

#include "ops/op_table.h"
#include "tensor/tensor.h"

namespace mlxcel::ops {

/// Throws InvalidArgument "<op>: <message>".
[[noreturn]] void bad_argument(std::string_view op, const std::string& message);
/// The kernel of `entry` on a device kind; throws Unsupported "<op> on <device>" when it is empty.
void require_kernel(bool present, std::string_view op, DeviceKind kind);

/// Rows over the last axis of an f32 tensor (on devices other than the CPU also bf16) of rank >= 1
/// whose last axis is contiguous and whose
/// other axes are row-major, except that the first may have any stride (a slice of a wider tensor).
RowView row_view(std::string_view op, std::string_view name, const Tensor& x);
/// Contiguous f32 elements of a tensor with `count` elements that lies on `device`; null for a null
/// tensor when `optional`.
const float* vector_of(std::string_view op, std::string_view name, const Tensor& t, int64_t count,
                       bool optional = false, Device device = {});
const int32_t* indices_of(std::string_view op, std::string_view name, const Tensor& t,
                          Device device = {});
/// Checked arguments of rope(); x stays null when there is nothing to rotate (elementwise.cc).
RopeArgs rope_args(Tensor& x, const Tensor& positions, const Tensor& inv_freq, bool interleaved,
                   float attention_factor, int32_t first_position);
/// Throws unless both tensors lie on one device and have one element type.
void check_alike(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace mlxcel::ops
