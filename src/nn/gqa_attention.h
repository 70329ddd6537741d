// Grouped-query attention (arXiv:2305.13245) with the switches that published decoders differ in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/causal_lm.h"
#include "nn/layers.h"
#include "nn/norm.h"
#include "nn/rope.h"

namespace mlxcel::nn {

/// The first half of a block: the part that looks at other tokens.
class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual Tensor operator()(const Tensor& x, const Batch& batch) const = 0;  // [T, D] -> [T, D]
  virtual int64_t weight_bytes() const = 0;
};

/// A norm of queries and keys.
struct QkNorm {
  enum class Span : uint8_t {
    Head,        // every head by itself, one gain [Dh]
    EachHead,    // every head by itself, a gain for each, [H, Dh]
    Projection,  // the whole projection, one gain [H * Dh]
  } span = Span::Head;
  NormOptions norm{};
  bool after_rope = false;
  std::string_view q = "q_norm", k = "k_norm";  // names in the checkpoint
};

/// How a checkpoint stores the three projections.
enum class QkvLayout : uint8_t {
  Separate,  // q_proj, k_proj, v_proj; or one fused matrix with the rows of q, then k, then v
  Grouped,   // fused: for each key/value head its query heads, its key, its value
};

/// One attention layer.
struct GqaOptions {
  int64_t hidden_size = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::optional<Rope> rope{};  // unset: no positions
  int32_t window = 0;          // 0 = full causal attention
  float scale = 0.0F;          // of the scores; 0 = 1 / sqrt(head_dim)
  float softcap = 0.0F;        // of the scores; 0 = off
  float clip_qkv = 0.0F;       // normed queries, keys and values are clamped to [-c, c]
  QkvLayout layout = QkvLayout::Separate;
  Bias qkv_bias = Bias::None, o_bias = Bias::None;
  std::optional<QkNorm> qk_norm{};
  std::optional<NormOptions> v_norm{};  // of every value head, named v_norm
  bool output_gate = false;  // q_proj holds, for each head, a query and a gate: out * sigmoid(gate)
  bool has_sinks = false;    // an extra logit for every head in the softmax, named sinks
  bool value_is_key = false;  // there is no v_proj: values are the key projection before its norm
  int shared_from = -1;       // reads the keys and values of that layer and has none of its own
  /// Queries are multiplied by 1 + beta * log(1 + floor(position / period)); beta 0 = off.
  float position_beta = 0.0F;
  int64_t position_period = 1;
  std::string_view fused_name = "qkv_proj", o_name = "o_proj";

  /// What this layer keeps between steps.
  CacheSpec cache() const;
};

/// softmax(rope(q) rope(k)^T * scale) v, then the output projection.
class GqaAttention final : public Mixer {
 public:
  /// `w` holds the projections, and the norms and sinks that are used.
  GqaAttention(const GqaOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  struct Projected {
    Tensor q, k, v, gate;  // [T, H, Dh], [T, Hk, Dh] twice, [T, H * Dh]; some may be null
  };
  Projected project(const Tensor& x) const;
  void norm_queries_and_keys(Tensor& q, Tensor& k) const;

  GqaOptions options_;
  int layer_;
  StackedLinear qkv_;
  Linear o_;
  std::optional<Norm> q_norm_, k_norm_, v_norm_;
  std::optional<HeadNorm> q_head_norm_, k_head_norm_;
  Tensor sinks_;  // [H] f32
};

}  // namespace mlxcel::nn
