// Attention over the engine's cache.
#pragma once

#include "nn/batch.h"
#include "ops/ops.h"

namespace mlxcel::nn {

/// Appends k and v to `layer`'s cache, then softmax(q K^T * scale + causal mask) V per segment.
/// q [T, H, Dh], k/v [T, Hk, Dh], H % Hk == 0. Returns [T, H, Dv].
Tensor attention(const Batch& batch, int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ops::AttentionOptions& options);

}  // namespace mlxcel::nn
