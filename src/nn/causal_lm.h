// What a loaded text decoder is, and what its layers keep between steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/batch.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// What a layer keeps between steps. The engine allocates it; the model only names it.
struct CacheSpec {
  enum class Kind : uint8_t { None, Full, Window, Latent, Recurrent } kind = Kind::None;
  /// Latent keeps one head of `k_dim` elements and no values: those are a prefix of the keys.
  int32_t num_kv_heads = 0, k_dim = 0, v_dim = 0, window = 0;
  /// One per state tensor, without the row dimension: all that Recurrent has, and what a layer of
  /// another kind keeps besides.
  std::vector<Shape> state{};

  static CacheSpec full(int64_t num_kv_heads, int64_t head_dim);
  static CacheSpec sliding(int64_t num_kv_heads, int64_t head_dim, int64_t window);
  static CacheSpec recurrent(std::vector<Shape> state);
  static CacheSpec latent(int64_t dim);
};

struct ModelSpec {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, max_positions = 0;
  std::vector<CacheSpec> caches{};  // one per layer
  Device device{};                  // of weights, caches and logits
  /// Keys of prompts longer than this differ from those of the same tokens in shorter prompts, so
  /// the two never share a cache; 0 = none does.
  int64_t prompt_regime = 0;
};

/// A loaded model: weights and arithmetic, no per-request state. Safe to share between threads, one
/// forward at a time.
class CausalLm {
 public:
  virtual ~CausalLm() = default;
  virtual const ModelSpec& spec() const = 0;
  /// Logits [R, V] f32 of the batch's logit_rows. Never reads tensor values on the host, keeps no
  /// state between calls.
  virtual Tensor forward(const Batch& batch) const = 0;
  /// Bytes of packed weights in memory.
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace mlxcel::nn
