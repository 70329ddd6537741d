#include "nn/attention.h"

#include "base/error.h"

namespace mlxcel::nn {

Tensor attention(const Batch& batch, int layer, const Tensor& q, const Tensor& k, const Tensor& v,
                 const ops::AttentionOptions& options) {
  MLXCEL_CHECK(batch.caches != nullptr, "attention needs the caches of the batch");
  const ops::PagedKv kv = batch.caches->kv(layer);
  const auto segments = batch.caches->segments(layer);
  ops::kv_append(kv, segments, k, v);
  return ops::attention(q, kv, segments, options);
}

Tensor rotated_attention(const Batch& batch, int layer, const Rope& rope, Tensor& q, Tensor& k,
                         const Tensor& v, const ops::AttentionOptions& options) {
  MLXCEL_CHECK(batch.caches != nullptr, "attention needs the caches of the batch");
  const ops::PagedKv kv = batch.caches->kv(layer);
  const auto segments = batch.caches->segments(layer);
  rope.apply_and_append(kv, segments, q, k, v, batch.positions);
  return ops::attention(q, kv, segments, options);
}

Tensor latent_attention(const Batch& batch, int layer, const Tensor& q, const Tensor& keys,
                        int64_t v_dim, const ops::AttentionOptions& options) {
  MLXCEL_CHECK(batch.caches != nullptr, "attention needs the caches of the batch");
  ops::PagedKv kv = batch.caches->kv(layer);
  MLXCEL_CHECK(kv.v == nullptr, "latent attention over a cache with values");
  kv.v_dim = static_cast<int32_t>(v_dim);
  const auto segments = batch.caches->segments(layer);
  ops::kv_append(kv, segments, keys, {});
  return ops::attention(q, kv, segments, options);
}

Tensor shared_attention(const Batch& batch, int layer, const Tensor& q,
                        const ops::AttentionOptions& options) {
  MLXCEL_CHECK(batch.caches != nullptr, "attention needs the caches of the batch");
  return ops::attention(q, batch.caches->kv(layer), batch.caches->segments(layer), options);
}

}  // namespace mlxcel::nn
