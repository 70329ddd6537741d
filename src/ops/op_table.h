// The table of kernels behind every op that is not a matrix product: one function pointer per op
// and device. Pointers and sizes have been checked when a kernel is called. On the CPU all data is
// f32 unless a field says otherwise; elsewhere pointers to activations, inputs and outputs alike,
// point to elements of `type` and kernels cast them. Strides are in elements.
#pragma once

#include <cstdint>
#include <span>

#include "ops/ops.h"
#include "ops/recurrent_args.h"
#include "tensor/buffer.h"

namespace mlxcel::ops {

/// Rows of `dim` contiguous elements: row (i, j) starts at data + i * outer_stride + j * dim.
struct RowView {
  const float* data = nullptr;
  int64_t outer = 0, inner = 1, outer_stride = 0, dim = 0;
  DType type = DType::F32;
  int64_t rows() const { return outer * inner; }
  const float* row(int64_t r) const { return data + r / inner * outer_stride + r % inner * dim; }
};

struct NormArgs {
  RowView x, delta;             // delta.data is null unless a sum is wanted first
  const float* gain = nullptr;  // [dim]; null = ones
  const float* bias = nullptr;  // [dim]; layer_norm only, null = zeros
  float* sum = nullptr;         // [rows, dim] x + delta, with delta only
  float* out = nullptr;         // [rows, dim]
  float eps = 0, offset = 0;
};
struct BinaryArgs {
  RowView a, b;
  float* out = nullptr;  // [rows, dim]
};
struct UnaryArgs {
  RowView x;
  float* out = nullptr;  // [rows, dim]
  float parameter = 0;   // factor, cap or limit
  Activation kind = Activation::Silu;
};
struct XieluArgs {
  RowView x;
  float* out = nullptr;  // [rows, dim]
  XieluOptions options;
};
struct PositionFactorsArgs {
  const int32_t* positions = nullptr;  // [count]
  int64_t count = 0, period = 1;
  float* out = nullptr;  // [count]
  float beta = 0;
};
struct TakeRowsArgs {
  RowView x;
  const int32_t* ids = nullptr;  // checked against x.rows()
  int64_t count = 0;
  float* out = nullptr;  // [count, dim]
};
struct ArgmaxArgs {
  RowView x;
  int32_t* out = nullptr;  // [rows]
};
struct RopeArgs {
  float* x = nullptr;  // [tokens, heads, head_dim], tokens at x_stride
  DType type = DType::F32;
  int64_t tokens = 0, x_stride = 0, heads = 0, head_dim = 0;
  const int32_t* positions = nullptr;  // [tokens]
  const float* inv_freq = nullptr;     // [freq_rows, half]
  int64_t half = 0, freq_rows = 1;
  int32_t first_position = 0;  // of the first row of inv_freq
  bool interleaved = false;
  float attention_factor = 1.0F;
  /// Frequencies of a position: its row, or the nearest.
  const float* frequencies(int32_t position) const {
    const int64_t row = int64_t{position} - first_position;
    return inv_freq + (row < 0 ? 0 : row < freq_rows ? row : freq_rows - 1) * half;
  }
};
struct KvAppendArgs {
  PagedKv kv;
  std::span<const AttentionSegment> segments;
  const float* k = nullptr;  // [T, Hk, k_dim], tokens at k_stride
  const float* v = nullptr;  // null when the storage has none
  int64_t k_stride = 0, v_stride = 0;
  DType type = DType::F32;
};
struct RopeAppendArgs {
  RopeArgs q, k;  // of equal frequencies and positions
  KvAppendArgs append;
};
struct AttentionArgs {
  PagedKv kv;
  std::span<const AttentionSegment> segments;
  const float* q = nullptr;  // [T, H, k_dim], tokens at q_stride
  int64_t q_stride = 0;
  DType type = DType::F32;
  int64_t tokens = 0;
  int32_t heads = 0;
  float* out = nullptr;  // [T, H, v_dim]
  float scale = 1.0F, softcap = 0.0F;
  int32_t window = 0;
  const float* sinks = nullptr;  // [H] or null
};

// Of expert_table.h.
struct RouteArgs;
struct ExpertLinearArgs;
struct CombineArgs;
struct ScaleRowsArgs;
struct ClampedSwigluArgs;

struct OpTable {
  void (*rms_norm)(const NormArgs&) = nullptr;  // rms_norm and add_rms_norm
  void (*layer_norm)(const NormArgs&) = nullptr;
  void (*add)(const BinaryArgs&) = nullptr;
  void (*mul)(const BinaryArgs&) = nullptr;
  void (*silu_mul)(const BinaryArgs&) = nullptr;
  void (*scale)(const UnaryArgs&) = nullptr;
  void (*activate)(const UnaryArgs&) = nullptr;
  void (*softcap)(const UnaryArgs&) = nullptr;
  void (*clamp)(const UnaryArgs&) = nullptr;
  void (*xielu)(const XieluArgs&) = nullptr;
  void (*position_factors)(const PositionFactorsArgs&) = nullptr;
  void (*copy_rows)(const UnaryArgs&) = nullptr;
  void (*take_rows)(const TakeRowsArgs&) = nullptr;
  void (*argmax_rows)(const ArgmaxArgs&) = nullptr;
  void (*rope)(const RopeArgs&) = nullptr;
  void (*kv_append)(const KvAppendArgs&) = nullptr;
  void (*rope_append)(const RopeAppendArgs&) = nullptr;  // optional: rope and kv_append in one
  void (*attention)(const AttentionArgs&) = nullptr;
  void (*route)(const RouteArgs&) = nullptr;
  void (*expert_linear)(const ExpertLinearArgs&) = nullptr;
  void (*combine_experts)(const CombineArgs&) = nullptr;
  void (*scale_rows)(const ScaleRowsArgs&) = nullptr;
  void (*sigmoid)(const UnaryArgs&) = nullptr;
  void (*clamped_swiglu)(const ClampedSwigluArgs&) = nullptr;
  RecurrentTable recurrent{};
};

/// The process-wide table of a device kind, written only by the backends' registration.
OpTable& op_table(DeviceKind kind);

}  // namespace mlxcel::ops
