// The matrices of routed experts, in every layout that checkpoints store them in.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "io/weights.h"
#include "nn/layers.h"
#include "ops/experts.h"

namespace mlxcel::nn {

/// Names below the mixture's cursor. The first layout that the checkpoint has is taken:
///   <stacked>.<gate>.weight        [E, F, D], likewise up, and down [E, D, F]   (MLX, GGUF)
///   <single>.<gate_up>.weight      [E, 2F, D], gate rows first, down [E, D, F]  (fused)
///   <single>.<e>.<gate>.weight     [F, D] for each expert                       (Hugging Face)
struct ExpertNames {
  std::string_view stacked = "switch_mlp", single = "experts";
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view gate_up = "gate_up_proj";
  // An empty `gate`: experts without one; only `up` and `down` are there.
  /// The rows of a fused gate_up matrix alternate between gate and up.
  bool alternating = false;
  /// Fused matrices are stored [E, in, out] when they are dense.
  bool fused_in_out = false;
};

struct ExpertSizes {
  int64_t num_experts = 0, hidden_size = 0, intermediate_size = 0;
};

/// What a mixture runs. Gate and up are one product where their formats agree (`up` is null then);
/// `gate` is null for experts without one.
/// All are null when the checkpoint lacks a matrix, which is then in its list of missing ones.
struct ExpertWeights {
  std::shared_ptr<const ops::PackedExperts> gate, up, down;
  Tensor gate_bias, up_bias, down_bias;  // [E, rows] f32 or null; gate_bias covers up when fused
  int64_t bytes() const;
};

/// Packs the experts below `w`. Throws Corrupt or Unsupported naming the tensor that does not fit.
ExpertWeights take_experts(const io::Weights& w, const ExpertNames& names, const ExpertSizes& sizes,
                           Bias bias);

}  // namespace mlxcel::nn
