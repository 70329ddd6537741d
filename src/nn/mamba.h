// The mixer of Mamba (arXiv:2312.00752, figure 3):
//
//   u, z = in(x)             u = SiLU(conv(u))
//   dt, B, C = x_proj(u)     dt = softplus(dt_proj(dt))
//   y = out(scan(u, dt, A, B, C, D) * SiLU(z))
#pragma once

#include <cstdint>
#include <optional>

#include "nn/gqa_attention.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct MambaOptions {
  int64_t hidden_size = 0, inner_size = 0, num_states = 16, dt_rank = 0, conv_taps = 4;
  Bias proj_bias = Bias::None, conv_bias = Bias::Required;
  /// RMSNorms of dt, B and C: Jamba's (dt_layernorm, b_layernorm, c_layernorm), or without gains in
  /// Falcon-Mamba.
  std::optional<NormOptions> inner_norm{};

  CacheSpec cache() const;
};

class MambaMixer final : public Mixer {
 public:
  /// `w` holds in_proj, conv1d, x_proj, dt_proj, A_log, D and out_proj.
  MambaMixer(const MambaOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  MambaOptions options_;
  int layer_;
  Linear in_, x_proj_, dt_proj_, out_;
  ShortConv conv_;
  Tensor rates_;  // [N, I] f32
  Tensor skip_;   // [I] f32
  std::optional<Norm> dt_norm_, b_norm_, c_norm_;
};

}  // namespace mlxcel::nn
