// MiniMax M2: RMSNorms over the whole query and key projections, rotary positions on the first
// `rotary_dim` elements of a head, and a mixture in every layer with sigmoid scores normalised over
// the chosen experts and a bias that takes part in the choice only.
//
// https://huggingface.co/MiniMaxAI/MiniMax-M2. The older model type "minimax" names a model with
// linear attention too, told apart by its `layer_types`.

#include <fmt/core.h>

#include <array>

#include "base/error.h"
#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_minimax_m2(const io::Config& json, const io::Weights& w) {
  for (const char* key : {"layer_types", "attn_type_list"}) {
    if (lower_case(json.str("model_type")) != "minimax" || !json.has(key)) continue;
    throw Error(Code::Unsupported,
                fmt::format("{}: {} = {}: MiniMax models with linear attention are not supported",
                            json.source(), key, json.json().find(key)->dump()));
  }
  const nn::DenseConfig c(json, {.max_positions = 196608, .num_kv_heads = 8, .head_dim = 128});
  const double partial =
      static_cast<double>(json.size_or("rotary_dim", c.head_dim, 2, c.head_dim)) /
      static_cast<double>(c.head_dim);
  const nn::RopeConfig rope =
      nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention",
                           {.theta = 5e6, .partial_rotary_factor = partial});
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  for (nn::GqaOptions& a : o.attention) {
    a.qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::Projection, .norm = o.block.norm};
  }
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "num_local_experts",
                                        .intermediate_size_key = "intermediate_size",
                                        .num_experts = 256,
                                        .top_k = 8});
  moe.router.score = ops::RouterOptions::Score::Sigmoid;
  moe.router.normalize = true;
  moe.selection_bias = "e_score_correction_bias";
  o.feed_forward =
      nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp, "block_sparse_moe");
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"minimax_m2", "minimax"};
constexpr std::array<io::Rename, 3> kRenames = {{{"*.w1.weight", "*.gate_proj.weight"},
                                                 {"*.w2.weight", "*.down_proj.weight"},
                                                 {"*.w3.weight", "*.up_proj.weight"}}};

}  // namespace

extern const Family kMinimaxM2;
const Family kMinimaxM2 = {"minimax", "MiniMax M2", "moe", kTypes, {}, kRenames, load_minimax_m2};

}  // namespace mlxcel::models
