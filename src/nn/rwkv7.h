// The two mixers of an RWKV-7 layer (arXiv:2503.14456), over time and over channels. Both see the
// token before through learned shifts, x + (x_before - x) mu.
//
//   v = v + (v_first - v) sigmoid(lora_v(x_v))      after the first layer
//   w = exp(-e^-0.5 sigmoid(lora_w(x_w)))           a = sigmoid(lora_a(x_a))
//   k' = k (1 + (a - 1) k_a),  n = l2(k k_k)
//   y = GroupNorm(wkv(r, w, k', v, -n, n a)) + (r k' r_k) v
//   out(y * lora_g(x_g))
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "nn/norm.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct Rwkv7Sizes {
  int64_t hidden = 0, intermediate = 0, heads = 0, head_dim = 0;
  int64_t w_rank = 0, a_rank = 0, v_rank = 0, g_rank = 0;
  NormOptions norm{};

  /// The token before the time mix, the matrix of each head, the token before the channel mix.
  CacheSpec cache() const {
    return CacheSpec::recurrent(
        {Shape{1, hidden}, Shape{heads, head_dim, head_dim}, Shape{1, hidden}});
  }
};

class Rwkv7TimeMix {
 public:
  /// `w` holds x_r .. x_g, r_proj .. o_proj, w_lora, a_lora, v_lora (not in layer 0), g_lora, k_k,
  /// k_a, r_k and g_norm.
  Rwkv7TimeMix(const Rwkv7Sizes& sizes, const io::Weights& w, int layer);
  /// x [T, D] -> [T, D]; v_first [T, D] is set by layer 0 and read by the others.
  Tensor operator()(const Tensor& x, const Batch& batch, Tensor& v_first) const;
  int64_t weight_bytes() const;

 private:
  /// up(act(down(x))).
  class LowRank {
   public:
    LowRank(const io::Weights& w, int64_t size, int64_t rank, Bias bias);
    Tensor operator()(const Tensor& x, Tensor (*act)(const Tensor&)) const {
      return up_(act(down_(x)));
    }
    int64_t weight_bytes() const { return down_.weight_bytes() + up_.weight_bytes(); }

   private:
    Linear down_, up_;
  };
  Linear projection(const io::Weights& w, std::string_view name) const;

  Rwkv7Sizes sizes_;
  int layer_;
  Linear r_, k_, v_, o_;
  LowRank w_lora_, a_lora_, g_lora_;
  std::optional<LowRank> v_lora_;
  Tensor k_k_, k_a_, k_rest_, r_k_, norm_gain_, norm_bias_;  // [D] f32; k_rest is 1 - k_a
  Tensor unit_;                                              // [head_dim]
  Tensor taps_;                                              // [2, 6D]
};

/// value(relu(key(x_k))^2).
class Rwkv7ChannelMix {
 public:
  Rwkv7ChannelMix(const Rwkv7Sizes& sizes, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const;  // [T, D] -> [T, D]
  int64_t weight_bytes() const {
    return key_.weight_bytes() + value_.weight_bytes() + taps_.bytes();
  }

 private:
  int layer_;
  Linear key_, value_;
  Tensor taps_;  // [2, D]
};

}  // namespace mlxcel::nn
