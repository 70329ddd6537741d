// A whole dense decoder from one table of switches: what the families of models/ fill in.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "nn/activation.h"
#include "nn/block.h"
#include "nn/dense_config.h"

namespace mlxcel::nn {

struct DenseOptions {
  BlockOptions block{};
  std::vector<GqaOptions> attention{};  // one per layer
  MlpOptions mlp{};
  std::vector<int64_t> intermediate_sizes{};  // one per layer; empty = that of `mlp` everywhere
  FeedForwardFactory feed_forward{};          // unset: the MLP above in every layer
  std::string_view attention_name = "self_attn", mlp_name = "mlp";
  float embed_scale = 1.0F, logit_scale = 1.0F, logit_softcap = 0.0F;
  Bias head_bias = Bias::None;
  int64_t learned_positions = 0;  // rows of embed_positions, added to the embedding; 0 = none
  int64_t max_positions = 0;
  bool transposed_matrices = false;  // the layers' dense matrices are stored inputs first
};

/// Switches of a plain pre-norm decoder (RMSNorm, SwiGLU, no biases, full attention, rotary
/// positions `rope` in every layer), for a family to change.
DenseOptions dense_options(const DenseConfig& c, const RopeConfig& rope);
/// The same without rotary positions.
DenseOptions dense_options(const DenseConfig& c);

/// The rotary settings of a family that rotates whole heads: throws Unsupported for
/// partial_rotary_factor other than 1.
RopeConfig whole_head_rope(const io::Config& json, const DenseConfig& c);

/// The decoder of a checkpoint with Hugging Face names: model.embed_tokens, model.layers.N,
/// model.norm, lm_head.
std::unique_ptr<CausalLm> make_dense_decoder(const DenseConfig& c, const DenseOptions& options,
                                             const io::Weights& w);

}  // namespace mlxcel::nn
