// The second half of a block: what is done to every token by itself. An MLP here; mixtures of
// experts implement the same interface.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "nn/batch.h"
#include "nn/layers.h"

namespace mlxcel::nn {

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual Tensor operator()(const Tensor& x, const Batch& batch) const = 0;  // [T, D] -> [T, D]
  virtual int64_t weight_bytes() const = 0;
};

/// Makes the feed-forward part of one layer. `layer_weights` is the cursor of the whole layer.
using FeedForwardFactory =
    std::function<std::unique_ptr<FeedForward>(const io::Weights& layer_weights, int layer)>;

struct MlpOptions {
  int64_t hidden_size = 0, intermediate_size = 0;
  ops::Activation activation = ops::Activation::Silu;
  bool learned_xielu = false;  // instead of `activation`: xIELU with the numbers of act_fn
  bool gated = true;           // down(act(gate(x)) * up(x)), else down(act(up(x)))
  Bias bias = Bias::IfPresent;
  /// Names of the projections; the gate and up projections may also be stored as one, `fused`, the
  /// gate first.
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj", fused = "gate_up_proj";
};

/// The MLP of `w`.
std::unique_ptr<FeedForward> make_mlp(const MlpOptions& options, const io::Weights& w);

}  // namespace mlxcel::nn
