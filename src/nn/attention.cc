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

}  // namespace mlxcel::nn
