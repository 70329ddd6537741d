// ERNIE 4.5 MoE: rotary positions over neighbouring pairs; in every `moe_layer_interval`-th layer
// between `moe_layer_start_index` and `moe_layer_end_index` a mixture weighted by a softmax, with a
// bias that takes part in the choice only, and shared experts.
//
// Report: https://yiyan.baidu.com/blog/publication/ERNIE_Technical_Report.pdf

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

std::vector<bool> sparse_layers(const io::Config& json, int64_t num_layers) {
  const int64_t interval = json.size_or("moe_layer_interval", 1, 1);
  const int64_t begin = json.size_or("moe_layer_start_index", 1, 0);
  int64_t last = json.size_or("moe_layer_end_index", -1, -1);
  if (last < 0) last = num_layers - 1;
  std::vector<bool> sparse;
  for (int64_t i = 0; i < num_layers; ++i) {
    sparse.push_back((i + 1) % interval == 0 && i >= begin && i <= last);
  }
  return sparse;
}

LoadedModel load_ernie4_5_moe(const io::Config& json, const io::Weights& w) {
  nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 4, .norm_eps = 1e-5F});
  if (!c.tie_word_embeddings) c.tie_word_embeddings = true;
  nn::RopeConfig rope = nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention",
                                             {.theta = 500000.0});
  rope.interleaved = true;
  nn::DenseOptions o = nn::dense_options(c, rope);
  json.expect("hidden_act", "silu");
  const nn::Bias bias = nn::bias_from(json, "use_bias", false);
  for (nn::GqaOptions& a : o.attention) a.qkv_bias = a.o_bias = bias;
  o.mlp.bias = o.head_bias = bias;
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "moe_num_experts",
                                        .top_k_key = "moe_k",
                                        .num_experts = 64,
                                        .top_k = 6,
                                        .intermediate_size = 1536});
  moe.router.normalize = true;
  moe.router.norm_floor = nn::number_from(json, "moe_norm_min", 1e-12F);
  moe.selection_bias = "moe_statics.e_score_correction_bias";
  moe.shared_intermediate_size =
      json.size_or("moe_num_shared_experts", 2, 0, 4096) * moe.intermediate_size;
  moe.shared_bias = bias;
  o.feed_forward = nn::moe_layers(sparse_layers(json, c.num_layers), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"ernie4_5_moe", "ernie4.5_moe"};

}  // namespace

extern const Family kErnie45Moe;
const Family kErnie45Moe = {"ernie4_5_moe",   "ERNIE 4.5 MoE", "moe", kTypes, {}, {},
                            load_ernie4_5_moe};

}  // namespace mlxcel::models
