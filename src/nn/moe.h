// A mixture of experts as the feed-forward part of a block: a router, the routed experts and the
// experts that every token shares.
//
//   y = sum over chosen e of w_e * E_e(x)  +  shared(x)        E(x) = down(act(gate(x)) * up(x))
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "nn/expert_weights.h"
#include "nn/feed_forward.h"
#include "ops/experts.h"

namespace mlxcel::nn {

/// What happens between the matrices of a routed expert.
struct ExpertActivation {
  /// Relu2: down(relu(up(x))^2), without a gate, in the shared experts too.
  enum class Kind : uint8_t { SwiGlu, ClampedSwiGlu, Relu2 } kind = Kind::SwiGlu;
  float alpha = 1.702F, limit = 7.0F;  // ClampedSwiGlu, see ops::clamped_swiglu
};

struct MoeOptions {
  int64_t hidden_size = 0, intermediate_size = 0, num_experts = 0;
  ops::RouterOptions router{};
  std::string router_name = "gate";
  Bias router_bias = Bias::None;
  /// Tensor [E] (or [1, E]) added to the scores for the choice only; empty = none.
  std::string selection_bias{};
  /// A missing selection bias counts as zeros.
  bool selection_bias_optional = false;
  ExpertNames names{};
  ExpertActivation activation{};
  Bias expert_bias = Bias::None;
  /// The weight of an expert multiplies its input instead of its output.
  bool scale_input = false;
  int64_t shared_intermediate_size = 0;  // of the shared experts together; 0 = none
  std::string shared_name = "shared_experts";
  std::string shared_gate{};  // matrix [1, D] whose sigmoid multiplies the shared output; empty = 1
  Bias shared_bias = Bias::None;
};

/// The mixture of `w`, the cursor of a layer's feed-forward part.
std::unique_ptr<FeedForward> make_moe(const MoeOptions& options, const io::Weights& w);

}  // namespace mlxcel::nn
