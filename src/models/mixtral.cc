// Mixtral: Mistral attention with a mixture of experts in every layer, weighted by a softmax over
// the chosen ones. Expert matrices are named w1 (gate), w3 (up) and w2 (down).
//
// Paper: Mixtral of Experts (arXiv:2401.04088).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_mixtral(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 8, .norm_eps = 1e-5F});
  const nn::RopeConfig rope =
      nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention", {.theta = 1e6});
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  for (nn::GqaOptions& a : o.attention) a.window = nn::window_from(json, "sliding_window", 0);
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "num_local_experts",
                                        .intermediate_size_key = "intermediate_size",
                                        .num_experts = 8,
                                        .top_k = 2});
  moe.router.normalize = true;
  o.feed_forward =
      nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp, "block_sparse_moe");
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"mixtral"};
constexpr std::array<io::Rename, 3> kRenames = {{{"*.w1.weight", "*.gate_proj.weight"},
                                                 {"*.w2.weight", "*.down_proj.weight"},
                                                 {"*.w3.weight", "*.up_proj.weight"}}};

}  // namespace

extern const Family kMixtral;
const Family kMixtral = {"mixtral", "Mixtral", "moe", kTypes, {}, kRenames, load_mixtral};

}  // namespace mlxcel::models
