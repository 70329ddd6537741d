// The skeleton that most text decoders share: embed -> blocks -> norm -> head.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "io/weights.h"
#include "nn/causal_lm.h"
#include "nn/layer_inputs.h"
#include "nn/layers.h"
#include "nn/norm.h"

namespace mlxcel::nn {

/// A residual stream whose last addition may still be open: its value is x + delta.
struct Residual {
  Tensor x;      // [T, D]
  Tensor delta;  // [T, D] or null
  Tensor value() const { return delta ? ops::add(x, delta) : x; }
};

class Block {
 public:
  virtual ~Block() = default;
  virtual Tensor operator()(const Tensor& x, const Batch& batch) const = 0;  // [T, D] -> [T, D]
  /// The same from and to an open stream: blocks that begin with a norm add and norm in one pass,
  /// with the same bits.
  virtual Residual continue_from(const Residual& r, const Batch& batch) const {
    return {(*this)(r.value(), batch), {}};
  }
  virtual int64_t weight_bytes() const = 0;
};

struct DecoderConfig {
  ModelSpec spec;
  io::Weights model;    // holds embed_tokens, layers.N and norm
  io::Weights lm_head;  // ignored when the embedding is tied
  NormOptions norm{};   // of the last residual stream
  /// Unset: tied exactly when the checkpoint has no head.
  std::optional<bool> tie_word_embeddings{};
  Bias head_bias = Bias::None;
  float embed_scale = 1.0F, logit_scale = 1.0F, logit_softcap = 0.0F;
  LayerInputOptions layer_inputs{};  // dim 0 = none
  int64_t learned_positions = 0;     // rows of embed_positions, added to the embedding; 0 = none
  std::function<std::unique_ptr<Block>(const io::Weights&, int layer)> block;
};

/// Hidden-state capture, media embeddings and logit-row selection are handled here, once, for every
/// family. A head that a tied checkpoint ships anyway is not loaded; a warning says when it differs
/// from the embedding.
std::unique_ptr<CausalLm> make_decoder(DecoderConfig config);

}  // namespace mlxcel::nn
