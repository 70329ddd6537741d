// gpt-oss: grouped-query attention with biases and a learned sink for every head (an extra logit
// that takes probability and gives no value), alternating between a window and full attention; a
// mixture in every layer that chooses by logit and takes a softmax over the chosen ones, with
// biases and a clamped SwiGLU (ops::clamped_swiglu). Experts come as MXFP4 blocks, as plain [E, in,
// out] tensors whose columns alternate between gate and up, or as MLX stacks.
//
// Model card: arXiv:2508.10925.

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

/// The rotary settings of the published checkpoints, for a config without any.
io::Config with_rope(const io::Config& json) {
  if (json.has("rope_scaling") || json.has("rope_parameters")) return json;
  Json yarn = Json::object();
  yarn.set("rope_type", "yarn");
  yarn.set("factor", 32.0);
  yarn.set("beta_fast", 32.0);
  yarn.set("beta_slow", 1.0);
  yarn.set("truncate", false);
  yarn.set("original_max_position_embeddings", int64_t{4096});
  Json filled = json.json();
  filled.set("rope_scaling", std::move(yarn));
  return io::Config::from_json(std::move(filled), json.source());
}

LoadedModel load_gpt_oss(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 131072, .num_kv_heads = 8, .head_dim = 64, .norm_eps = 1e-5F});
  const nn::RopeConfig rope = nn::RopeConfig::from(with_rope(json), c.head_dim, c.max_positions,
                                                   "full_attention", {.theta = 150000.0});
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  const int32_t window = nn::window_from(json, "sliding_window", 128);
  const std::vector<bool> listed = nn::sliding_layers(json, c.num_layers);
  for (size_t layer = 0; layer < o.attention.size(); ++layer) {
    nn::GqaOptions& a = o.attention[layer];
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias", true);
    a.has_sinks = true;
    if (listed.empty() ? layer % 2 == 0 : listed[layer]) a.window = window;
  }
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "num_local_experts",
                                        .intermediate_size_key = "intermediate_size",
                                        .num_experts = 128,
                                        .top_k = 4});
  moe.router.score = ops::RouterOptions::Score::ChosenSoftmax;
  moe.router_name = "router";
  moe.router_bias = moe.expert_bias = nn::Bias::Required;
  moe.names.stacked = "experts";
  moe.names.alternating = moe.names.fused_in_out = true;
  moe.activation = {.kind = nn::ExpertActivation::Kind::ClampedSwiGlu,
                    .alpha = nn::number_from(json, "swiglu_alpha", 1.702F),
                    .limit = nn::positive_or_null(json, "swiglu_limit", 7.0F, 7.0F)};
  o.feed_forward = nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"gpt_oss"};
constexpr std::array<io::Rename, 5> kRenames = {
    {{"*_proj_blocks", "*_proj.blocks"},
     {"*_proj_scales", "*_proj.block_scales"},
     {"*_proj_bias", "*_proj.bias"},
     {"*.experts.gate_up_proj", "*.experts.gate_up_proj.weight"},
     {"*.experts.down_proj", "*.experts.down_proj.weight"}}};

}  // namespace

extern const Family kGptOss;
const Family kGptOss = {"gpt_oss", "gpt-oss", "moe", kTypes, {}, kRenames, load_gpt_oss};

}  // namespace mlxcel::models
