// DeepSeek V3 and R1: latent attention (nn/latent_attention.h); dense layers first, then mixtures
// with sigmoid scores, a selection bias and group-limited choice (nn/moe_config.h). Layers behind
// the last one, for multi-token prediction, are not loaded.
//
// Report: DeepSeek-V3 (arXiv:2412.19437).

#include <array>

#include "models/family.h"
#include "nn/latent_attention.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_deepseek_v3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 4096, .head_dim = 64});
  nn::DenseOptions o = nn::dense_options(c);
  json.expect("hidden_act", "silu");
  const nn::LatentOptions latent = nn::latent_options(json, c, {});
  const nn::MoeOptions moe = nn::grouped_sigmoid_moe(json, c,
                                                     {.num_experts_key = "n_routed_experts",
                                                      .num_experts = 256,
                                                      .top_k = 8,
                                                      .intermediate_size = 2048},
                                                     {.scale = 2.5F, .groups = 8, .top_groups = 4});
  o.feed_forward = nn::moe_layers(nn::sparse_from(json, c, 3), moe, o.mlp);
  return {.lm = nn::make_latent_decoder(c, o, latent, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"deepseek_v3"};

}  // namespace

extern const Family kDeepseekV3;
const Family kDeepseekV3 = {"deepseek_v3",   "DeepSeek V3 / R1", "moe", kTypes, {}, {},
                            load_deepseek_v3};

}  // namespace mlxcel::models
