// What the attention kernels share.
#pragma once

#include "ops/ops.h"

namespace mlxcel::cuda {

/// Positions whose partial result is formed on its own; pieces are then merged in order. Part of
/// what fixes the bits of a row, in prefill and decode alike.
inline constexpr int kAttentionPiece = 128;

struct AttentionParams {
  const void* q = nullptr;  // [T, heads, k_dim], tokens at q_stride elements
  const void* k = nullptr;
  const void* v = nullptr;  // tokens at v_stride elements
  void* out = nullptr;      // [T, heads, v_dim]
  int64_t q_stride = 0;
  int heads = 0, kv_heads = 0, k_dim = 0, v_dim = 0, v_stride = 0, block_tokens = 0, window = 0;
  float scale = 1.0F, softcap = 0.0F;
  const float* sinks = nullptr;
  ops::AttentionPlan plan;
};

/// Any shape and type (attention.cu).
void attention_any(const AttentionParams& p, DType type, DType cache_type);
/// By tensor cores (attention_mma.cu): bf16 queries, 16-bit caches with blocks of whole 32
/// positions, heads of 64 or 128 elements, up to 16 query heads a key/value head.
bool attention_mma_supports(const AttentionParams& p, DType type, DType cache_type);
void attention_mma(const AttentionParams& p, DType cache_type);

}  // namespace mlxcel::cuda
