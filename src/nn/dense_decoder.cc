#include "nn/dense_decoder.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace mlxcel::nn {

DenseOptions dense_options(const DenseConfig& c) {
  DenseOptions o;
  o.block.hidden_size = c.hidden_size;
  o.block.norm.eps = c.norm_eps;
  o.attention.assign(static_cast<size_t>(c.num_layers), {.hidden_size = c.hidden_size,
                                                         .num_heads = c.num_heads,
                                                         .num_kv_heads = c.num_kv_heads,
                                                         .head_dim = c.head_dim});
  o.mlp = {.hidden_size = c.hidden_size, .intermediate_size = c.intermediate_size};
  o.mlp.bias = Bias::None;
  o.max_positions = c.max_positions;
  return o;
}

DenseOptions dense_options(const DenseConfig& c, const RopeConfig& rope) {
  DenseOptions o = dense_options(c);
  const Rope table(rope);
  for (GqaOptions& layer : o.attention) layer.rope = table;
  o.max_positions = rope.usable_positions();
  return o;
}

RopeConfig whole_head_rope(const io::Config& json, const DenseConfig& c) {
  const RopeConfig rope = RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention");
  if (rope.rotary_dim != c.head_dim) {
    throw Error(
        Code::Unsupported,
        fmt::format("{}: partial_rotary_factor = {} is not supported by this family: it "
                    "rotates whole heads",
                    json.source(),
                    static_cast<double>(rope.rotary_dim) / static_cast<double>(c.head_dim)));
  }
  return rope;
}

std::unique_ptr<CausalLm> make_dense_decoder(const DenseConfig& c, const DenseOptions& options,
                                             const io::Weights& w) {
  std::vector<CacheSpec> caches;
  int64_t regime = 0;
  for (const GqaOptions& layer : options.attention) {
    caches.push_back(layer.cache());
    if (layer.rope) regime = std::max(regime, layer.rope->prompt_regime());
  }
  return make_decoder({
      .spec = {.vocab_size = c.vocab_size,
               .hidden_size = c.hidden_size,
               .intermediate_size = c.intermediate_size,
               .max_positions = options.max_positions,
               .caches = std::move(caches),
               .prompt_regime = regime},
      .model = w.at("model"),
      .lm_head = w.at("lm_head"),
      .norm = options.block.norm,
      .tie_word_embeddings = c.tie_word_embeddings,
      .head_bias = options.head_bias,
      .embed_scale = options.embed_scale,
      .logit_scale = options.logit_scale,
      .logit_softcap = options.logit_softcap,
      .layer_inputs = options.block.layer_inputs,
      .learned_positions = options.learned_positions,
      .block = [&options](const io::Weights& stored, int layer) -> std::unique_ptr<Block> {
        const io::Weights layer_weights =
            options.transposed_matrices ? stored.with_transposed_matrices() : stored;
        const GqaOptions& attention = options.attention.at(static_cast<size_t>(layer));
        auto mixer = std::make_unique<GqaAttention>(
            attention, layer_weights.at(options.attention_name), layer);
        MlpOptions mlp = options.mlp;
        if (!options.intermediate_sizes.empty()) {
          mlp.intermediate_size = options.intermediate_sizes.at(static_cast<size_t>(layer));
        }
        auto feed_forward = options.feed_forward
                                ? options.feed_forward(layer_weights, layer)
                                : make_mlp(mlp, layer_weights.at(options.mlp_name));
        BlockOptions block = options.block;
        block.layer = layer;
        return make_block(block, layer_weights, std::move(mixer), std::move(feed_forward));
      },
  });
}

}  // namespace mlxcel::nn
