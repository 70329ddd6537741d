// Kimi Delta Attention (arXiv:2510.26692): the gated delta rule with a decay for every key element.
//
//   q, k, v = SiLU(conv(in(x)))       decay = e^(-e^A_log softplus(f(x) + dt_bias))
//   y = delta(l2(q) / sqrt(D), l2(k), v, decay, sigmoid(b(x)))
//   out(RMSNorm(y of each head) * sigmoid(g(x)))       f and g have low rank
#pragma once

#include <array>
#include <vector>

#include "nn/gqa_attention.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct KimiDeltaOptions {
  int64_t hidden_size = 0, num_heads = 0, head_dim = 0, conv_taps = 4;
  float norm_eps = 1e-5F;
  int64_t width() const { return num_heads * head_dim; }
  CacheSpec cache() const;
};

class KimiDeltaMixer final : public Mixer {
 public:
  /// `w` holds q_proj, k_proj, v_proj, their convolutions (q_conv1d or q_conv.conv, ...), f_a_proj,
  /// f_b_proj, dt_bias, A_log, b_proj, g_a_proj, g_b_proj, o_norm and o_proj.
  KimiDeltaMixer(const KimiDeltaOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  KimiDeltaOptions options_;
  int layer_;
  StackedLinear qkv_;
  std::vector<ShortConv> convs_;  // of q, k and v
  Linear f_a_, f_b_, b_, g_a_, g_b_, out_;
  Tensor dt_bias_, rates_;  // [width]; one rate a head, repeated over its elements
  Tensor q_gain_, k_gain_;  // [head_dim]
  Norm norm_;
};

}  // namespace mlxcel::nn
