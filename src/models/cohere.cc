// Command R and R7B: attention and MLP read the same LayerNorm of x (without a bias), rotary
// positions turn neighbouring pairs, logits are scaled, one table serves as embedding and head.
// Cohere 2 has three sliding layers to a full one; the full ones have no positions.
//
// https://docs.cohere.com/docs/command-r; Command A (arXiv:2504.00698).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_cohere(const io::Config& json, const io::Weights& w) {
  const bool second = lower_case(json.str("model_type")) == "cohere2";
  const nn::DenseConfig c(
      json, {.max_positions = 8192, .norm_eps = 1e-5F, .norm_eps_key = "layer_norm_eps"});
  const auto rotary = nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention",
                                           {.interleaved = true});
  nn::DenseOptions o = nn::dense_options(c, rotary);
  o.block.norm.kind = nn::NormOptions::Kind::LayerNorm;
  o.block.names = {"input_layernorm", "", "", ""};
  o.block.parallel = true;
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  o.logit_scale = json.f32_or("logit_scale", 0.0625F);
  const bool qk_norm = !second && json.flag_or("use_qk_norm", false);
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
    if (qk_norm) {
      layer.qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::EachHead, .norm = o.block.norm};
    }
  }
  if (second) {
    const int64_t every = json.size_or("sliding_window_pattern", 4, 1, 4096);
    const std::vector<bool> sliding = nn::sliding_layers(json, c.num_layers, every);
    const int32_t window = nn::window_from(json, "sliding_window", 4096);
    for (size_t layer = 0; layer < sliding.size(); ++layer) {
      if (sliding[layer]) o.attention[layer].window = window;
      if (o.attention[layer].window == 0) o.attention[layer].rope.reset();
    }
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kCohereTypes = {"cohere"};
constexpr std::array<std::string_view, 1> kCohereArchs = {"command-r"};
constexpr std::array<std::string_view, 1> kCohere2Types = {"cohere2"};

}  // namespace

extern const Family kCohere;
const Family kCohere = {"cohere",     "Command R", "dense",    kCohereTypes,
                        kCohereArchs, {},          load_cohere};
extern const Family kCohere2;
const Family kCohere2 = {
    "cohere2", "Command R7B, Command A", "dense", kCohere2Types, kCohere2Types, {}, load_cohere};

}  // namespace mlxcel::models
