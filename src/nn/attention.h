// Attention over the engine's cache.
#pragma once

#include "nn/batch.h"
#include "nn/rope.h"
#include "ops/ops.h"

namespace mlxcel::nn {

/// Appends k and v to `layer`'s cache, then softmax(q K^T * scale + causal mask) V per segment.
/// q [T, H, Dh], k/v [T, Hk, Dh], H % Hk == 0. Returns [T, H, Dv].
Tensor attention(const Batch& batch, int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ops::AttentionOptions& options);

/// The same after rotating q and k, in one pass over k where the device can: k may come back
/// unrotated.
Tensor rotated_attention(const Batch& batch, int layer, const Rope& rope, Tensor& q, Tensor& k,
                         const Tensor& v, const ops::AttentionOptions& options);

/// The same for latent caches: keys [T, 1, k_dim] whose first v_dim elements are the values.
/// q [T, H, k_dim] -> [T, H, v_dim].
Tensor latent_attention(const Batch& batch, int layer, const Tensor& q, const Tensor& keys,
                        int64_t v_dim, const ops::AttentionOptions& options);

/// The same over the keys and values that `layer`, an earlier layer of this forward, has appended.
Tensor shared_attention(const Batch& batch, int layer, const Tensor& q,
                        const ops::AttentionOptions& options);

}  // namespace mlxcel::nn
