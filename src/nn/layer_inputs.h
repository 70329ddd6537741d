// Inputs that every layer gets of a token beside the residual stream, as Gemma 3n and 4 have them:
//
//   e_l = (N(P x)_l + sqrt(dim) E[token]_l) / sqrt(2)           for all layers l at once
//   y   = x + N'(W (act(G x) * e_l))                            at the end of layer l
#pragma once

#include <cstdint>

#include "nn/batch.h"
#include "nn/layers.h"
#include "nn/norm.h"

namespace mlxcel::nn {

struct LayerInputOptions {
  int64_t hidden_size = 0, num_layers = 0;
  int64_t dim = 0;         // of one layer's input; 0 = there are none
  int64_t vocab_size = 0;  // rows of E
  ops::Activation activation = ops::Activation::GeluTanh;
  NormOptions norm{};
};

/// e of all layers. `w` holds embed_tokens_per_layer, per_layer_model_projection and
/// per_layer_projection_norm.
class LayerInputs {
 public:
  LayerInputs(const LayerInputOptions& options, const io::Weights& w);
  /// x [T, D] is the scaled embedding. Without token ids (media) the table has no part in e.
  Tensor operator()(const Tensor& token_ids, const Tensor& x) const;  // [T, L, P]
  int64_t weight_bytes() const;

 private:
  LayerInputOptions options_;
  Embedding table_;
  Linear projection_;
  Norm norm_;
};

/// The end of one layer. `w` holds per_layer_input_gate, per_layer_projection and
/// post_per_layer_input_norm.
class LayerInputGate {
 public:
  LayerInputGate(const LayerInputOptions& options, const io::Weights& w, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const;  // [T, D] -> [T, D], y - x
  int64_t weight_bytes() const;

 private:
  LayerInputOptions options_;
  int layer_;
  Linear gate_, projection_;
  Norm norm_;
};

}  // namespace mlxcel::nn
