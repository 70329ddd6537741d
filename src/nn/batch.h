// One forward pass over a ragged batch of tokens: prefill, decode, mixed steps and verification
// differ only in the numbers of their segments.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ops/ops.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// New tokens of one sequence inside a batch: decode has q_len 1, verification has q_len = draft
/// + 1.
struct Segment {
  int32_t row = 0;         // first row of this sequence in [0, T)
  int32_t q_len = 0;       // new tokens
  int32_t kv_len = 0;      // tokens visible after this forward, including the new ones
  int32_t cache_row = 0;   // row in the engine's per-sequence state tables
  int32_t prompt_len = 0;  // of the whole prompt, however it is cut; the same in every step
};

/// Engine-owned keys, values and recurrent state of the sequences in a batch, as one layer sees
/// them.
class LayerCaches {
 public:
  virtual ~LayerCaches() = default;
  virtual ops::PagedKv kv(int layer) const = 0;
  /// One entry per segment of the batch, in order.
  virtual std::span<const ops::AttentionSegment> segments(int layer) const = 0;
  /// State tensor `index` of a recurrent layer, [num_state_rows, ...]; row = Segment::cache_row. In
  /// place.
  virtual Tensor state(int layer, int index) const = 0;
};

/// Immutable while the model runs.
struct Batch {
  Tensor token_ids;   // [T] i32
  Tensor positions;   // [T] i32, or [3, T] for multi-axis rotary
  Tensor embeds;      // [T, D], set when media features replace token ids
  Tensor logit_rows;  // [R] i32: rows whose logits are wanted
  /// [T, L, P]: what each layer gets of the tokens beside the residual stream. Made by the decoder
  /// of families that have it.
  Tensor layer_inputs;
  std::span<const Segment> segments;
  const LayerCaches* caches = nullptr;
  /// For draft heads; called with the residual stream after each layer when set.
  std::function<void(int layer, const Tensor& x)> capture_hidden;
};

}  // namespace mlxcel::nn
