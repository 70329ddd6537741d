// Granite and MiniCPM: Llama's decoder with four multipliers, which Granite's config names and
// MiniCPM's derives from its muP settings:
//
//                Granite                MiniCPM
//   embedding    embedding_multiplier   scale_emb
//   residual     residual_multiplier    scale_depth / sqrt(layers)
//   scores       attention_multiplier   1 / sqrt(head_dim)
//   logits       1 / logits_scaling     dim_model_base / hidden_size
//
// Papers: Power scheduler (arXiv:2408.13359), MiniCPM (arXiv:2404.06395).

#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

nn::DenseOptions llama_options(const io::Config& json, const nn::DenseConfig& c) {
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  o.mlp.bias = nn::bias_from(json, "mlp_bias");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
  }
  return o;
}

LoadedModel load_granite(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048});
  nn::DenseOptions o = llama_options(json, c);
  o.embed_scale = json.f32_or("embedding_multiplier", 1.0F);
  o.block.residual_multiplier = json.f32_or("residual_multiplier", 1.0F);
  o.logit_scale = 1.0F / nn::positive_or_null(json, "logits_scaling", 1.0F, 1.0F);
  for (nn::GqaOptions& layer : o.attention) {
    layer.scale = nn::positive_or_null(json, "attention_multiplier", 1.0F, 1.0F);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_minicpm(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048});
  nn::DenseOptions o = llama_options(json, c);
  o.embed_scale = json.f32_or("scale_emb", 1.0F);
  o.block.residual_multiplier =
      json.f32_or("scale_depth", 1.0F) / std::sqrt(static_cast<float>(c.num_layers));
  const auto hidden = static_cast<float>(c.hidden_size);
  o.logit_scale = nn::positive_or_null(json, "dim_model_base", hidden, hidden) / hidden;
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kGraniteTypes = {"granite"};
constexpr std::array<std::string_view, 1> kMiniCpmTypes = {"minicpm"};

}  // namespace

extern const Family kGranite;
const Family kGranite = {"granite", "Granite 3 dense", "dense", kGraniteTypes, kGraniteTypes,
                         {},        load_granite};
extern const Family kMiniCpm;
const Family kMiniCpm = {"minicpm", "MiniCPM 1 / 2", "dense", kMiniCpmTypes, {}, {}, load_minicpm};

}  // namespace mlxcel::models
