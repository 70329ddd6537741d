// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434): keys and values of all heads are
// linear in one latent vector a token, which is what the cache keeps, with one rotary key for all.
//
//   c = RMSNorm(W_dkv x), k_r = rope(W_kr x)                 cached: [c, k_r]
//   score_h = (W_uk_h^T q_h) . c + rope(q_r_h) . k_r         the up-projection of keys is absorbed
//   out_h = W_uv_h (sum of softmax(score_h) c)               and so is that of values
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nn/dense_decoder.h"
#include "nn/gqa_attention.h"
#include "ops/experts.h"

namespace mlxcel::nn {

struct LatentOptions {
  int64_t hidden_size = 0, num_heads = 0;
  int64_t q_lora_rank = 0;  // 0: queries come from x directly
  int64_t kv_lora_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;
  float scale = 1.0F;      // of the scores
  Bias bias = Bias::None;  // of q_a_proj, kv_a_proj_with_mqa and o_proj
  std::optional<Rope> rope{};

  CacheSpec cache() const { return CacheSpec::latent(kv_lora_rank + rope_dim); }
};

/// The keys of config.json that DeepSeek V2, V3 and their kin share; `head_dim` of `c` is not used.
struct LatentDefaults {
  int64_t q_lora_rank = 1536, kv_lora_rank = 512, nope_dim = 128, rope_dim = 64, value_dim = 128;
};
LatentOptions latent_options(const io::Config& json, const DenseConfig& c,
                             const LatentDefaults& defaults);

class LatentAttention final : public Mixer {
 public:
  /// `w` holds q_proj, or q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa, kv_a_layernorm,
  /// o_proj; and kv_b_proj [H * (nope + value), latent] or MLX's embed_q [H, latent, nope] and
  /// unembed_out [H, value, latent].
  LatentAttention(const LatentOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  Tensor queries(const Tensor& x) const;
  LatentOptions options_;
  int layer_;
  std::optional<Linear> q_, q_a_, q_b_;
  std::optional<Norm> q_norm_;
  Linear kv_a_;
  Norm kv_norm_;
  std::shared_ptr<const ops::PackedExperts> key_up_, value_up_;  // W_uk^T and W_uv by head
  Linear o_;
};

/// A decoder of such attention layers; of `options`, what concerns attention is not used.
std::unique_ptr<CausalLm> make_latent_decoder(const DenseConfig& c, const DenseOptions& options,
                                              const LatentOptions& latent, const io::Weights& w);

}  // namespace mlxcel::nn
