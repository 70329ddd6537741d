// OLMoE: a pre-norm decoder that normalises the whole query and key projections before they are cut
// into heads (and clamps all three with `clip_qkv`), with a mixture of experts in every layer whose
// softmax weights are not normalised over the chosen ones.
//
// Paper: OLMoE (arXiv:2409.02060).

#include <array>

#include "models/family.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_olmoe(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 4096, .norm_eps = 1e-5F});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  for (nn::GqaOptions& a : o.attention) {
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::Projection, .norm = o.block.norm};
    a.clip_qkv = nn::positive_or_null(json, "clip_qkv", 0.0F);
  }
  nn::MoeOptions moe = nn::moe_options(
      json, c, {.intermediate_size_key = "intermediate_size", .num_experts = 64, .top_k = 8});
  moe.router.normalize = json.flag_or("norm_topk_prob", false);
  o.feed_forward = nn::moe_layers(std::vector<bool>(o.attention.size(), true), moe, o.mlp);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"olmoe"};

}  // namespace

extern const Family kOlmoe;
const Family kOlmoe = {"olmoe", "OLMoE", "moe", kTypes, {}, {}, load_olmoe};

}  // namespace mlxcel::models
