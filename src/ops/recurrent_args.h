// What the kernels of ops/recurrent.h get: checked pointers and sizes. Rows of activations are
// contiguous and lie at their own stride (in elements); state tensors are contiguous.
#pragma once

#include <cstdint>

#include "ops/recurrent.h"

namespace mlxcel::ops {

/// Row t starts at data + t * stride.
struct Rows {
  const float* data = nullptr;
  int64_t stride = 0;
  const float* row(int64_t t) const { return data + t * stride; }
};

struct ConvArgs {
  Rows x;
  StateSegments segments;
  const float* weight = nullptr;  // [taps, outputs, channels]
  const float* bias = nullptr;    // [outputs, channels] or null
  int64_t tokens = 0, channels = 0, outputs = 1, taps = 0;
  bool silu = false;
  float* state = nullptr;  // [S, taps - 1, channels]
  float* out = nullptr;    // [T, outputs * channels]
};
/// factor * softplus(x + bias) clamped, or its exponential; plain: x * factor + bias.
struct ColumnArgs {
  Rows x;
  const float* bias = nullptr;    // [dim] or null
  const float* factor = nullptr;  // [dim] or null
  int64_t tokens = 0, dim = 0;
  float low = 0, high = 0;
  float* out = nullptr;
};
struct BlockLinearArgs {
  Rows x;
  const float* w = nullptr;     // [heads, in, out_dim]
  const float* bias = nullptr;  // [heads, out_dim] or null
  int64_t tokens = 0, heads = 0, in = 0, out_dim = 0;
  float* out = nullptr;
};
struct JoinArgs {
  Rows a, b;
  int64_t tokens = 0, a_dim = 0, b_dim = 0;
  float* out = nullptr;
};
struct HeadDotArgs {
  Rows a, b, v;
  int64_t tokens = 0, heads = 0, dim = 0;
  float* out = nullptr;
};
struct SelectiveScanArgs {
  Rows x, dt, b, c;
  StateSegments segments;
  const float* a = nullptr;  // [states, channels]
  const float* d = nullptr;  // [channels]
  int64_t tokens = 0, channels = 0, states = 0;
  float* state = nullptr;  // [S, states, channels]
  float* out = nullptr;
};
struct SsdArgs {
  Rows x, dt, b, c;
  StateSegments segments;
  const float* a = nullptr;  // [heads]
  const float* d = nullptr;  // [heads]
  int64_t tokens = 0, heads = 0, groups = 0, states = 0, head_dim = 0;
  float* state = nullptr;  // [S, heads, states, head_dim]
  float* out = nullptr;
};
struct DeltaArgs {
  Rows q, k, v, decay, beta;
  StateSegments segments;
  bool decay_by_element = false;
  int64_t tokens = 0, heads = 0, key_heads = 0, k_dim = 0, v_dim = 0;
  float* state = nullptr;  // [S, heads, k_dim, v_dim]
  float* out = nullptr;
};
struct Rwkv7Args {
  Rows r, w, k, v, a, b;
  StateSegments segments;
  int64_t tokens = 0, heads = 0, dim = 0;
  float* state = nullptr;  // [S, heads, dim (of k), dim (of v)]
  float* out = nullptr;
};
struct RgLruArgs {
  Rows x, input, recurrence;
  StateSegments segments;
  const float* factor = nullptr;       // [width]
  const int32_t* positions = nullptr;  // [T]
  int64_t tokens = 0, width = 0;
  float* state = nullptr;  // [S, width]
  float* out = nullptr;
};

/// One entry for each operation; part of OpTable.
struct RecurrentTable {
  void (*causal_conv1d)(const ConvArgs&) = nullptr;
  void (*softplus)(const ColumnArgs&) = nullptr;
  void (*softplus_decay)(const ColumnArgs&) = nullptr;
  void (*scale_columns)(const ColumnArgs&) = nullptr;
  void (*block_linear)(const BlockLinearArgs&) = nullptr;
  void (*join_columns)(const JoinArgs&) = nullptr;
  void (*head_dot_scale)(const HeadDotArgs&) = nullptr;
  void (*selective_scan)(const SelectiveScanArgs&) = nullptr;
  void (*ssd_scan)(const SsdArgs&) = nullptr;
  void (*delta_scan)(const DeltaArgs&) = nullptr;
  void (*rwkv7_scan)(const Rwkv7Args&) = nullptr;
  void (*rg_lru_scan)(const RgLruArgs&) = nullptr;
};

}  // namespace mlxcel::ops
