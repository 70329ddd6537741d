#include "nn/hybrid_decoder.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"

namespace mlxcel::nn {

std::unique_ptr<CausalLm> make_hybrid_decoder(const HybridOptions& o, const io::Weights& w) {
  return make_decoder({
      .spec = {.vocab_size = o.vocab_size,
               .hidden_size = o.hidden_size,
               .intermediate_size = o.intermediate_size,
               .max_positions = o.max_positions,
               .caches = o.caches},
      .model = w.at("model"),
      .lm_head = w.at("lm_head"),
      .norm = o.block.norm,
      .tie_word_embeddings = o.tie_word_embeddings,
      .embed_scale = o.embed_scale,
      .logit_scale = o.logit_scale,
      .logit_softcap = o.logit_softcap,
      .block = [&o](const io::Weights& layer_weights, int layer) -> std::unique_ptr<Block> {
        auto mixer = o.mixer(layer_weights, layer);
        auto feed_forward = o.feed_forward ? o.feed_forward(layer_weights, layer) : nullptr;
        return make_block(o.block, layer_weights, std::move(mixer), std::move(feed_forward));
      },
  });
}

std::vector<std::string> layer_kinds(const io::Config& c, std::string_view key, int64_t num_layers,
                                     std::span<const std::string_view> known) {
  std::vector<std::string> kinds;
  if (!c.has(key)) return kinds;
  for (const Json& entry : c.json().find(key)->as_array()) {
    const std::string& kind = entry.as_string();
    if (std::ranges::find(known, kind) == known.end()) {
      throw Error(Code::Unsupported, fmt::format("{}: {}[{}] = \"{}\" is not supported", c.source(),
                                                 key, kinds.size(), kind));
    }
    kinds.push_back(kind);
  }
  if (static_cast<int64_t>(kinds.size()) != num_layers) {
    throw Error(Code::InvalidArgument, fmt::format("{}: {} has {} entries for {} layers",
                                                   c.source(), key, kinds.size(), num_layers));
  }
  return kinds;
}

}  // namespace mlxcel::nn
