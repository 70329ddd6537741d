// The mixer of Mamba 2 (arXiv:2405.21060, section 7), which several hybrids share:
//
//   z, u, dt = in(x)         u, B, C = SiLU(conv(u))
//   y = ssd(u, softplus(dt + bias), A, B, C, D)
//   out(norm(y * SiLU(z))), or norm(y) * SiLU(z), or y * SiLU(z)
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "io/config.h"
#include "nn/gqa_attention.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct Mamba2Options {
  int64_t hidden_size = 0, num_heads = 0, head_dim = 0, num_groups = 1, num_states = 0,
          conv_taps = 4;
  Bias in_bias = Bias::None, out_bias = Bias::None, conv_bias = Bias::Required;
  float dt_low = 0.0F, dt_high = std::numeric_limits<float>::infinity();
  enum class NormPlace : uint8_t { AfterGate, BeforeGate, None } norm_place = NormPlace::AfterGate;
  int64_t norm_groups = 1;  // every group of channels is normed by itself
  float norm_eps = 1e-5F;
  /// Factors of z, u, B, C and dt as in_proj gives them; empty: none.
  std::vector<float> multipliers{};
  int state_index = 0;  // of the convolution; the scan's follows

  int64_t inner_size() const { return num_heads * head_dim; }
  int64_t conv_size() const { return inner_size() + 2 * num_groups * num_states; }
  std::vector<Shape> states() const;
};

/// Options from the keys mamba_n_heads, mamba_d_head, mamba_n_groups, mamba_d_state, mamba_d_conv,
/// mamba_expand or mamba_d_ssm, mamba_conv_bias, mamba_proj_bias and time_step_limit; norms are
/// left to the family.
Mamba2Options mamba2_from(const io::Config& c, int64_t hidden_size);
/// Limits of the time step from a list of two numbers at `key`; null is no limit.
void read_dt_limits(const io::Config& c, std::string_view key, Mamba2Options& options);
/// Throws InvalidArgument when heads or channels do not divide into the groups.
void check_mamba2(const io::Config& c, const Mamba2Options& options);

class Mamba2Mixer final : public Mixer {
 public:
  /// `w` holds in_proj, conv1d, dt_bias, A_log, D, norm (with NormPlace other than None), out_proj.
  Mamba2Mixer(const Mamba2Options& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const override;
  int64_t weight_bytes() const override;

 private:
  Tensor norm(const Tensor& y) const;  // [T, I] -> [T, I]

  Mamba2Options options_;
  int layer_;
  Linear in_, out_;
  ShortConv conv_;
  Tensor dt_bias_, rates_, skip_;  // [H] f32
  Tensor ones_, gain_;             // [I / groups] and [I] f32, or null
  Tensor factors_;                 // of the columns of in_proj, or null
};

}  // namespace mlxcel::nn
