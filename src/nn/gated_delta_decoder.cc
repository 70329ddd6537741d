#include "nn/gated_delta_decoder.h"

#include <array>

#include "nn/gated_delta.h"
#include "nn/rope.h"

namespace mlxcel::nn {
namespace {

std::vector<bool> attention_layers(const io::Config& c, int64_t num_layers) {
  constexpr std::array<std::string_view, 2> kKinds = {"linear_attention", "full_attention"};
  std::vector<bool> attends;
  for (const std::string& kind : layer_kinds(c, "layer_types", num_layers, kKinds)) {
    attends.push_back(kind == "full_attention");
  }
  if (!attends.empty()) return attends;
  const int64_t interval = c.size_or("full_attention_interval", 4, 1, 4096);
  for (int64_t i = 0; i < num_layers; ++i) attends.push_back((i + 1) % interval == 0);
  return attends;
}

/// What is added to the stored gains of norms.
float gain_offset(const io::Weights& w, const std::vector<bool>& attends) {
  for (size_t i = 0; i < attends.size(); ++i) {
    if (attends[i]) continue;
    const io::Weights layer = w.at("model").at("layers", static_cast<int64_t>(i));
    const std::vector<int64_t> dims = layer.at("linear_attn.conv1d").dims("weight");
    return dims.size() == 3 && dims[2] == 1 ? 0.0F : 1.0F;
  }
  return 1.0F;
}

}  // namespace

std::unique_ptr<CausalLm> make_gated_delta_decoder(const io::Config& c, const DenseConfig& sizes,
                                                   const FeedForwardFactory& feed_forward,
                                                   const io::Weights& w) {
  c.expect("hidden_act", "silu");
  c.expect("attn_output_gate", "true");
  const std::vector<bool> attends = attention_layers(c, sizes.num_layers);
  const NormOptions norm{.eps = sizes.norm_eps, .offset = gain_offset(w, attends)};
  const RopeConfig rope = RopeConfig::from(c, sizes.head_dim, sizes.max_positions, "full_attention",
                                           {.partial_rotary_factor = 0.25});
  GqaOptions attention{.hidden_size = sizes.hidden_size,
                       .num_heads = sizes.num_heads,
                       .num_kv_heads = sizes.num_kv_heads,
                       .head_dim = sizes.head_dim,
                       .rope = Rope(rope),
                       .qk_norm = QkNorm{.norm = norm},
                       .output_gate = true};
  attention.qkv_bias = attention.o_bias = bias_from(c, "attention_bias", false);
  const GatedDeltaOptions delta = GatedDeltaOptions::from(c, sizes.hidden_size, sizes.norm_eps);

  HybridOptions o;
  o.vocab_size = sizes.vocab_size;
  o.hidden_size = sizes.hidden_size;
  o.intermediate_size = sizes.intermediate_size;
  o.max_positions = rope.usable_positions();
  for (const bool a : attends) o.caches.push_back(a ? attention.cache() : delta.cache());
  o.block = {.hidden_size = sizes.hidden_size, .norm = norm};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<Mixer> {
    if (attends[static_cast<size_t>(index)]) {
      return std::make_unique<GqaAttention>(attention, layer.at("self_attn"), index);
    }
    return std::make_unique<GatedDeltaMixer>(delta, layer.at("linear_attn"), index);
  };
  o.feed_forward = feed_forward;
  if (!feed_forward) {
    o.feed_forward = [&](const io::Weights& layer, int) {
      return make_mlp({.hidden_size = sizes.hidden_size,
                       .intermediate_size = sizes.intermediate_size,
                       .bias = Bias::None},
                      layer.at("mlp"));
    };
  }
  o.tie_word_embeddings = sizes.tie_word_embeddings.value_or(false);
  return make_hybrid_decoder(o, w);
}

}  // namespace mlxcel::nn
