// Granite 3 MoE: Granite's four scalars (embeddings, attention scores, what either part of a block
// adds, logits) around a mixture of experts in every layer that chooses by logit and takes a
// softmax over the chosen ones.
//
// https://github.com/ibm-granite/granite-3.0-language-models

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_granitemoe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  o.embed_scale = nn::number_from(json, "embedding_multiplier", 1.0F);
  o.logit_scale = 1.0F / nn::positive_or_null(json, "logits_scaling", 1.0F, 1.0F);
  o.block.residual_multiplier = nn::number_from(json, "residual_multiplier", 1.0F);
  for (nn::GqaOptions& a : o.attention) {
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.scale = nn::positive_or_null(json, "attention_multiplier", 1.0F, 1.0F);
  }
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.num_experts_key = "num_local_experts",
                                        .intermediate_size_key = "intermediate_size",
                                        .num_experts = 8,
                                        .top_k = 2});
  moe.router.score = ops::RouterOptions::Score::ChosenSoftmax;
  moe.router_name = "router.layer";
  o.feed_forward =
      nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp, "block_sparse_moe");
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"granitemoe"};
constexpr std::array<io::Rename, 2> kRenames = {
    {{"*.input_linear.weight", "*.experts.gate_up_proj.weight"},
     {"*.output_linear.weight", "*.experts.down_proj.weight"}}};

}  // namespace

extern const Family kGranitemoe;
const Family kGranitemoe = {"granitemoe", "Granite 3 MoE", "moe",          kTypes,
                            {},           kRenames,        load_granitemoe};

}  // namespace mlxcel::models
