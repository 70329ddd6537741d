// Phi 3.5 MoE: LayerNorms, biases as `attention_bias` and `lm_head_bias` say, and a mixture of
// experts in every layer that chooses two by SparseMixer (ops::RouterOptions).
//
// Papers: Phi-3 (arXiv:2404.14219), GRIN (arXiv:2409.12136).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_phimoe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 8, .norm_eps = 1e-5F});
  const nn::RopeConfig rope =
      nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention", {.theta = 1e6});
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  o.block.norm.kind = nn::NormOptions::Kind::LayerNorm;
  o.block.norm.has_bias = true;
  o.head_bias = nn::bias_from(json, "lm_head_bias", false);
  for (nn::GqaOptions& a : o.attention) {
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias", false);
    a.window = nn::window_from(json, "sliding_window", 0);
  }
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "num_local_experts",
                                        .intermediate_size_key = "intermediate_size",
                                        .num_experts = 16,
                                        .top_k = 2});
  moe.router.score = ops::RouterOptions::Score::SparseMixer;
  moe.router.jitter = nn::number_from(json, "router_jitter_noise", 0.01F);
  o.feed_forward =
      nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp, "block_sparse_moe");
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"phimoe"};
constexpr std::array<io::Rename, 3> kRenames = {{{"*.w1.weight", "*.gate_proj.weight"},
                                                 {"*.w2.weight", "*.down_proj.weight"},
                                                 {"*.w3.weight", "*.up_proj.weight"}}};

}  // namespace

extern const Family kPhimoe;
const Family kPhimoe = {"phimoe", "Phi 3.5 MoE", "moe", kTypes, {}, kRenames, load_phimoe};

}  // namespace mlxcel::models
