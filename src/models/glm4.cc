// GLM-4 (9B and 32B): half of every head is rotated, in neighbouring pairs; queries, keys and
// values have biases; gate and up projection are stored as one. `glm` is pre-norm, `glm4` adds
// norms after attention and MLP.
//
// Report: ChatGLM (arXiv:2406.12793).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_glm(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 131072, .num_kv_heads = 2, .head_dim = 128, .norm_eps = 1.5625e-7F});
  const auto rotary = nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention",
                                           {.partial_rotary_factor = 0.5, .interleaved = true});
  nn::DenseOptions o = nn::dense_options(c, rotary);
  if (lower_case(json.str("model_type")) == "glm4") {
    o.block.names = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                     "post_mlp_layernorm"};
  }
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = nn::bias_from(json, "attention_bias", true);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kGlmTypes = {"glm"};
constexpr std::array<std::string_view, 1> kGlm4Types = {"glm4"};

}  // namespace

extern const Family kGlm;
const Family kGlm = {"glm", "GLM-4 (2024)", "dense", kGlmTypes, {}, {}, load_glm};
extern const Family kGlm4;
const Family kGlm4 = {"glm4", "GLM-4 0414", "dense", kGlm4Types, {}, {}, load_glm};

}  // namespace mlxcel::models
