// The skeleton that most text decoders share: embed -> blocks -> norm -> head.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "io/weights.h"
#include "nn/causal_lm.h"

namespace mlxcel::nn {

class Block {
 public:
  virtual ~Block() = default;
  virtual Tensor operator()(const Tensor& x, const Batch& batch) const = 0;  // [T, D] -> [T, D]
  virtual int64_t weight_bytes() const = 0;
};

struct DecoderConfig {
  ModelSpec spec;
  io::Weights model;    // holds embed_tokens, layers.N and norm
  io::Weights lm_head;  // ignored when the embedding is tied
  float rms_norm_eps = 1e-6F;
  /// Unset: tied exactly when the checkpoint has no head.
  std::optional<bool> tie_word_embeddings;
  float embed_scale = 1.0F, logit_scale = 1.0F, logit_softcap = 0.0F;
  std::function<std::unique_ptr<Block>(const io::Weights&, int layer)> block;
};

/// Hidden-state capture, media embeddings and logit-row selection are handled here, once, for every
/// family. A head that a tied checkpoint ships anyway is not loaded; a warning says when it differs
/// from the embedding.
std::unique_ptr<CausalLm> make_decoder(DecoderConfig config);

}  // namespace mlxcel::nn
