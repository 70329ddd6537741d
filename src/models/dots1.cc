// dots.llm1: multi-head attention with an RMSNorm over every query and key head; dense layers
// first, then mixtures routed as DeepSeek V3 does. Layers from `max_window_layers` on (or those
// that `layer_types` names) see a window of `sliding_window` tokens.
//
// Report: dots.llm1 (arXiv:2506.05767).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_dots1(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  const int32_t window = nn::window_from(json, "sliding_window", 4096);
  const int64_t first = json.size_or("max_window_layers", 62, 0);
  const std::vector<bool> listed = nn::sliding_layers(json, c.num_layers);
  for (size_t layer = 0; layer < o.attention.size(); ++layer) {
    nn::GqaOptions& a = o.attention[layer];
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.qk_norm = nn::QkNorm{.norm = o.block.norm};
    const bool slides = listed.empty() ? static_cast<int64_t>(layer) >= first : listed[layer];
    if (slides) a.window = window;
  }
  const nn::MoeOptions moe = nn::grouped_sigmoid_moe(
      json, c, {.num_experts_key = "n_routed_experts", .intermediate_size = 1408},
      {.num_shared = 0, .normalize = false});
  o.feed_forward = nn::moe_layers(nn::sparse_from(json, c, 0), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"dots1"};

}  // namespace

extern const Family kDots1;
const Family kDots1 = {"dots1", "dots.llm1", "moe", kTypes, {}, {}, load_dots1};

}  // namespace mlxcel::models
