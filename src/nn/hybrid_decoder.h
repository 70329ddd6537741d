// A decoder whose layers differ in their mixer: recurrent, attention, both or none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "nn/block.h"
#include "nn/decoder.h"

namespace mlxcel::nn {

/// Makes the mixer of one layer; `layer_weights` is the cursor of the whole layer. Null: the layer
/// is a feed-forward part only.
using MixerFactory =
    std::function<std::unique_ptr<Mixer>(const io::Weights& layer_weights, int layer)>;

struct HybridOptions {
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, max_positions = 0;
  std::vector<CacheSpec> caches{};  // one per layer
  BlockOptions block{};
  MixerFactory mixer{};
  FeedForwardFactory feed_forward{};  // may give null, or be unset: mixers only
  std::optional<bool> tie_word_embeddings{};
  float embed_scale = 1.0F, logit_scale = 1.0F, logit_softcap = 0.0F;
};

/// The decoder of a checkpoint that holds model.embed_tokens, model.layers.N, model.norm, lm_head.
std::unique_ptr<CausalLm> make_hybrid_decoder(const HybridOptions& options, const io::Weights& w);

/// The kinds of the layers: the entries of the list at `key`, each one of `known`. Empty when the
/// key is absent. Throws Unsupported naming another entry, InvalidArgument for another length.
std::vector<std::string> layer_kinds(const io::Config& c, std::string_view key, int64_t num_layers,
                                     std::span<const std::string_view> known);

}  // namespace mlxcel::nn
