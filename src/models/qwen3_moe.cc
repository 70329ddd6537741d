// Qwen 3 MoE: Qwen 3 attention; layers that `decoder_sparse_step` and `mlp_only_layers` pick have a
// mixture of experts, weighted by a softmax over all of them (normalised over the chosen ones with
// `norm_topk_prob`), the others an MLP of `intermediate_size`. With `use_sliding_window` every
// layer sees a window.
//
// Paper: Qwen3 (arXiv:2505.09388).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen3_moe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 4});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  const bool slides = json.flag_or("use_sliding_window", false);
  const int32_t window = slides ? nn::window_from(json, "sliding_window", 4096) : 0;
  for (nn::GqaOptions& a : o.attention) {
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.qk_norm = nn::QkNorm{.norm = o.block.norm};
    a.window = window;
  }
  nn::MoeOptions moe =
      nn::moe_options(json, c, {.num_experts = 128, .top_k = 8, .intermediate_size = 768});
  moe.router.normalize = json.flag_or("norm_topk_prob", false);
  o.feed_forward = nn::moe_layers(nn::qwen_sparse_layers(json, c), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3_moe"};

}  // namespace

extern const Family kQwen3Moe;
const Family kQwen3Moe = {"qwen3_moe", "Qwen 3 MoE", "moe", kTypes, {}, {}, load_qwen3_moe};

}  // namespace mlxcel::models
