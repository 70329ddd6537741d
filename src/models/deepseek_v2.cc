// DeepSeek V2: latent attention (nn/latent_attention.h); dense layers first, then mixtures weighted
// by a softmax over all experts, chosen freely ("greedy") or from the groups with the best expert
// ("group_limited_greedy"), with shared experts.
//
// Paper: DeepSeek-V2 (arXiv:2405.04434).

#include <array>

#include "base/error.h"
#include "models/family.h"
#include "nn/latent_attention.h"
#include "nn/moe_config.h"

#include <fmt/core.h>

namespace mlxcel::models {
namespace {

LoadedModel load_deepseek_v2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048, .head_dim = 64});
  nn::DenseOptions o = nn::dense_options(c);
  json.expect("hidden_act", "silu");
  json.expect("norm_topk_prob", "false");
  o.mlp.bias = nn::bias_from(json, "mlp_bias", false);
  const nn::LatentOptions latent = nn::latent_options(json, c, {});
  nn::MoeOptions moe = nn::moe_options(
      json, c,
      {.num_experts_key = "n_routed_experts", .num_experts = 64, .intermediate_size = 1407});
  const std::string method = json.str_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    moe.router.num_groups = static_cast<int32_t>(json.size("n_group", 1, moe.num_experts));
    moe.router.top_groups = static_cast<int32_t>(json.size("topk_group", 1, moe.router.num_groups));
    moe.router.group_score = ops::RouterOptions::GroupScore::Max;
  } else if (method != "greedy") {
    throw Error(Code::Unsupported, fmt::format("{}: topk_method = \"{}\" is not supported (known: "
                                               "greedy, group_limited_greedy)",
                                               json.source(), method));
  }
  moe.router.scale = nn::number_from(json, "routed_scaling_factor", 1.0F);
  moe.shared_intermediate_size =
      json.size_or("n_shared_experts", 2, 0, 4096) * moe.intermediate_size;
  moe.shared_bias = o.mlp.bias;
  o.feed_forward = nn::moe_layers(nn::sparse_from(json, c, 0), moe, o.mlp);
  return {.lm = nn::make_latent_decoder(c, o, latent, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"deepseek_v2"};

}  // namespace

extern const Family kDeepseekV2;
const Family kDeepseekV2 = {"deepseek_v2", "DeepSeek V2", "moe", kTypes, {}, {}, load_deepseek_v2};

}  // namespace mlxcel::models
