// Qwen 1.5 / 2 MoE: Qwen 2 attention; sparse layers (see qwen3_moe.cc) add to the routed experts a
// shared one of `shared_expert_intermediate_size`, multiplied by the sigmoid of a gate of its own.
// With `use_sliding_window` every other layer below `max_window_layers`, the first included,
// slides.
//
// Paper: Qwen2 (arXiv:2407.10671).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

std::vector<int32_t> windows(const io::Config& json, int64_t num_layers) {
  std::vector<int32_t> out(static_cast<size_t>(num_layers), 0);
  if (!json.flag_or("use_sliding_window", false)) return out;
  const int32_t window = nn::window_from(json, "sliding_window", 4096);
  const int64_t end = json.size_or("max_window_layers", 28, 0);
  const std::vector<bool> listed = nn::sliding_layers(json, num_layers);
  for (int64_t i = 0; i < num_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool slides = listed.empty() ? i % 2 == 0 && i < end : listed[at];
    if (slides) out[at] = window;
  }
  return out;
}

LoadedModel load_qwen2_moe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 16});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  const std::vector<int32_t> window = windows(json, c.num_layers);
  for (size_t layer = 0; layer < window.size(); ++layer) {
    o.attention[layer].qkv_bias = nn::bias_from(json, "qkv_bias", true);
    o.attention[layer].window = window[layer];
  }
  nn::MoeOptions moe =
      nn::moe_options(json, c, {.num_experts = 60, .top_k = 4, .intermediate_size = 1408});
  moe.router.normalize = json.flag_or("norm_topk_prob", false);
  moe.shared_intermediate_size = json.size_or("shared_expert_intermediate_size", 5632);
  moe.shared_name = "shared_expert";
  moe.shared_gate = "shared_expert_gate";
  o.feed_forward = nn::moe_layers(nn::qwen_sparse_layers(json, c), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen2_moe"};

}  // namespace

extern const Family kQwen2Moe;
const Family kQwen2Moe = {"qwen2_moe", "Qwen 1.5 / 2 MoE", "moe", kTypes, {}, {}, load_qwen2_moe};

}  // namespace mlxcel::models
