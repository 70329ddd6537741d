// Rotary position embedding (arXiv:2104.09864) and the frequency scalings of published checkpoints:
// linear, dynamic NTK, llama3 bands, YaRN (arXiv:2309.00071).
#pragma once

#include <cstdint>
#include <string>

#include "io/config.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

/// Resolved at load into a frequency table. Reads rope_theta, rope_scaling or rope_parameters, and
/// partial_rotary_factor. Throws Unsupported naming key and value for an unknown rope type.
struct RopeConfig {
  int64_t rotary_dim = 0;
  double theta = 10000.0;
  bool interleaved = false;
  std::string type = "default";
  double factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0;
  double beta_fast = 32.0, beta_slow = 1.0, attention_factor = 0.0, mscale = 0.0,
         mscale_all_dim = 0.0;
  bool truncate = true;
  int64_t original_max_positions = 0, max_positions = 0;
  static RopeConfig from(const io::Config& c, int64_t head_dim);
};

class Rope {
 public:
  explicit Rope(const RopeConfig& c);
  /// In place; q [T, H, Dh], k [T, Hk, Dh], positions [T] i32.
  void apply(Tensor& q, Tensor& k, const Tensor& positions) const;
  const Tensor& inv_freq() const { return inv_freq_; }
  float attention_factor() const { return attention_factor_; }

 private:
  Tensor inv_freq_;  // [rotary_dim / 2] f32
  float attention_factor_ = 1.0F;
  bool interleaved_ = false;
};

}  // namespace mlxcel::nn
