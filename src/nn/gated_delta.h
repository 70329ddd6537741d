// The gated delta rule mixer (arXiv:2412.06464) of Qwen3-Next and its successors:
//
//   q, k, v, z, b, a = in(x)        q, k, v = SiLU(conv(q, k, v))
//   decay = e^(-e^A_log softplus(a + dt_bias))
//   y = delta(l2(q) / sqrt(Dk), l2(k), v, decay, sigmoid(b))
//   out(RMSNorm(y of each head) * SiLU(z))
#pragma once

#include <cstdint>
#include <vector>

#include "io/config.h"
#include "nn/gqa_attention.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct GatedDeltaOptions {
  int64_t hidden_size = 0, key_heads = 16, value_heads = 32, k_dim = 128, v_dim = 128,
          conv_taps = 4;
  float norm_eps = 1e-6F;

  int64_t key_size() const { return key_heads * k_dim; }
  int64_t value_size() const { return value_heads * v_dim; }
  int64_t conv_size() const { return 2 * key_size() + value_size(); }
  CacheSpec cache() const;
  /// From the keys linear_num_key_heads, linear_num_value_heads, linear_key_head_dim,
  /// linear_value_head_dim and linear_conv_kernel_dim.
  static GatedDeltaOptions from(const io::Config& c, int64_t hidden_size, float norm_eps);
};

/// Gains that scale an RMS-normed vector to Euclidean length `length`: with the epsilon below,
/// rms_norm(x, gain) = x / sqrt(sum x^2 + 1e-6) * length.
Tensor unit_gain(int64_t dim, float length);
float unit_epsilon(int64_t dim);

class GatedDeltaMixer final : public Mixer {
 public:
  /// `w` holds in_proj_qkv, in_proj_z, in_proj_b and in_proj_a, or in_proj_qkvz and in_proj_ba with
  /// the parts of each key head together; and conv1d, dt_bias, A_log, norm, out_proj.
  GatedDeltaMixer(const GatedDeltaOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  GatedDeltaOptions options_;
  int layer_;
  StackedLinear in_;
  ShortConv conv_;
  Tensor dt_bias_, rates_;  // [Hv] f32
  Tensor q_gain_, k_gain_;  // [Dk]
  Norm norm_;
  Linear out_;
};

}  // namespace mlxcel::nn
