// Granite 4: pre-norm blocks with a Mamba 2 mixer (nn/mamba2.h) or attention, usually without
// positions, and the four multipliers of Granite. Every layer has the MLP `shared_mlp`; checkpoints
// with experts add a mixture of them.
//
// Described at https://www.ibm.com/granite/docs/models/granite; the defaults of absent keys are
// those of the transformers configuration class.

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba2.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

/// The layers that attend; the others are Mamba 2.
std::vector<bool> attention_layers(const io::Config& json, int64_t num_layers) {
  constexpr std::array<std::string_view, 4> kKinds = {"mamba", "linear_attention", "attention",
                                                      "full_attention"};
  std::vector<bool> attends;
  for (const char* key : {"layer_types", "layers_block_type"}) {
    for (const std::string& kind : nn::layer_kinds(json, key, num_layers, kKinds)) {
      attends.push_back(kind.ends_with("attention") && kind != "linear_attention");
    }
    if (!attends.empty()) return attends;
  }
  attends.assign(static_cast<size_t>(num_layers), false);
  return attends;
}

/// MLX conversions of checkpoints without experts name the MLP and its projections as Llama does.
std::unique_ptr<nn::FeedForward> shared_mlp(nn::MlpOptions mlp, const io::Weights& layer) {
  if (!layer.has("mlp")) return nn::make_mlp(mlp, layer.at("shared_mlp"));
  mlp.down = "down_proj";
  return nn::make_mlp(mlp, layer.at("mlp"));
}

class ExpertsAndMlp final : public nn::FeedForward {
 public:
  ExpertsAndMlp(std::unique_ptr<nn::FeedForward> experts, std::unique_ptr<nn::FeedForward> mlp)
      : experts_(std::move(experts)), mlp_(std::move(mlp)) {}
  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    return ops::add((*experts_)(x, batch), (*mlp_)(x, batch));
  }
  int64_t weight_bytes() const override { return experts_->weight_bytes() + mlp_->weight_bytes(); }

 private:
  std::unique_ptr<nn::FeedForward> experts_, mlp_;
};

LoadedModel load_granite(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  const nn::DenseConfig c(json, {.intermediate_size = 11008});
  const bool has_experts = json.size_or("num_local_experts", 8, 0, 1 << 16) > 0;
  nn::MoeOptions moe;
  if (has_experts) {
    moe = nn::moe_options(json, c,
                          {.num_experts_key = "num_local_experts",
                           .intermediate_size_key = "intermediate_size",
                           .num_experts = 8,
                           .top_k = 2,
                           .intermediate_size = 11008});
    moe.router.score = ops::RouterOptions::Score::ChosenSoftmax;
    moe.router_name = "router";
  }
  nn::HybridOptions o;
  nn::GqaOptions attention{.hidden_size = c.hidden_size,
                           .num_heads = c.num_heads,
                           .num_kv_heads = c.num_kv_heads,
                           .head_dim = c.head_dim,
                           .scale = json.f32_or("attention_multiplier", 1.0F)};
  attention.qkv_bias = attention.o_bias = nn::bias_from(json, "attention_bias", false);
  o.max_positions = c.max_positions;
  const std::string positions = json.str_or("position_embedding_type", "");
  if (positions == "rope") {
    const nn::RopeConfig rope = nn::whole_head_rope(json, c);
    attention.rope = nn::Rope(rope);
    o.max_positions = rope.usable_positions();
  } else if (!positions.empty()) {
    json.expect("position_embedding_type", "nope");
  }
  nn::Mamba2Options mamba = nn::mamba2_from(json, c.hidden_size);
  mamba.norm_groups = mamba.num_groups;
  mamba.norm_eps = c.norm_eps;
  nn::check_mamba2(json, mamba);
  const std::vector<bool> attends = attention_layers(json, c.num_layers);
  const nn::MlpOptions mlp{
      .hidden_size = c.hidden_size,
      .intermediate_size = json.size_or("shared_intermediate_size", 1024, 1, 1 << 22),
      .bias = nn::Bias::None,
      .down = "output_linear",
      .fused = "input_linear"};

  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = mlp.intermediate_size;
  for (const bool a : attends) {
    o.caches.push_back(a ? attention.cache() : nn::CacheSpec::recurrent(mamba.states()));
  }
  o.block = {.hidden_size = c.hidden_size,
             .norm = {.eps = c.norm_eps},
             .residual_multiplier = json.f32_or("residual_multiplier", 1.0F)};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::Mixer> {
    if (attends[static_cast<size_t>(index)]) {
      return std::make_unique<nn::GqaAttention>(attention, layer.at("self_attn"), index);
    }
    return std::make_unique<nn::Mamba2Mixer>(mamba, layer.at("mamba"), index);
  };
  o.feed_forward = [&](const io::Weights& layer, int) -> std::unique_ptr<nn::FeedForward> {
    auto shared = shared_mlp(mlp, layer);
    if (!has_experts) return shared;
    return std::make_unique<ExpertsAndMlp>(nn::make_moe(moe, layer.at("block_sparse_moe")),
                                           std::move(shared));
  };
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  o.embed_scale = json.f32_or("embedding_multiplier", 1.0F);
  o.logit_scale = 1.0F / nn::positive_or_null(json, "logits_scaling", 1.0F, 1.0F);
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"granitemoehybrid"};
constexpr std::array<io::Rename, 3> kNames = {{
    {"*.block_sparse_moe.input_linear.weight", "*.block_sparse_moe.experts.gate_up_proj.weight"},
    {"*.block_sparse_moe.output_linear.weight", "*.block_sparse_moe.experts.down_proj.weight"},
    {"*.router.layer.weight", "*.router.weight"},
}};

}  // namespace

extern const Family kGraniteMoeHybrid;
const Family kGraniteMoeHybrid = {
    "granitemoehybrid", "Granite 4 hybrid",      "hybrid_ssm", kTypes, {}, kNames,
    load_granite,       PrefixSharing::Snapshots};

}  // namespace mlxcel::models
