// GLM 4.5 to 4.7: grouped-query attention that rotates `partial_rotary_factor` of a head, with
// RMSNorms of queries and keys when `use_qk_norm`; dense layers first, then mixtures routed as
// DeepSeek V3 does. Layers behind the last one, for multi-token prediction, are not loaded.
//
// Report: GLM-4.5 (arXiv:2508.06471).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_glm4_moe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 8, .norm_eps = 1e-5F});
  const nn::RopeConfig rope = nn::RopeConfig::from(
      json, c.head_dim, c.max_positions, "full_attention", {.partial_rotary_factor = 0.5});
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  for (nn::GqaOptions& a : o.attention) {
    a.qkv_bias = nn::bias_from(json, "attention_bias");
    if (json.flag_or("use_qk_norm", false)) a.qk_norm = nn::QkNorm{.norm = o.block.norm};
  }
  const nn::MoeOptions moe = nn::grouped_sigmoid_moe(json, c,
                                                     {.num_experts_key = "n_routed_experts",
                                                      .num_experts = 128,
                                                      .top_k = 8,
                                                      .intermediate_size = 1408},
                                                     {});
  o.feed_forward = nn::moe_layers(nn::sparse_from(json, c, 1), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"glm4_moe"};

}  // namespace

extern const Family kGlm4Moe;
const Family kGlm4Moe = {"glm4_moe", "GLM 4.5 / 4.6 / 4.7", "moe", kTypes, {}, {}, load_glm4_moe};

}  // namespace mlxcel::models
