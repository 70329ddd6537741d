// Gemma 1, 2 and 3 (text): norms that store gain - 1, embeddings times sqrt(hidden_size), an MLP
// gated by the tanh form of GELU, one table for embedding and head.
//
//   Gemma      pre-norm
//   Gemma 2    sandwich norms, caps on scores and logits, scores times query_pre_attn_scalar^-1/2,
//              every second layer with a sliding window
//   Gemma 3    and a norm of every query and key head, five sliding layers to a full one, rotary
//              positions of their own for the sliding layers
//
// Reports: Gemma (arXiv:2403.08295), Gemma 2 (arXiv:2408.00118), Gemma 3 (arXiv:2503.19786).

#include <algorithm>
#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

using nn::RopeConfig;

/// What all three share.
nn::DenseOptions gemma_options(const io::Config& json, const nn::DenseConfig& c) {
  json.expect("use_bidirectional_attention", "false");
  nn::DenseOptions o = nn::dense_options(c);
  o.block.norm.offset = json.f32_or("norm_gain_offset", 1.0F);  // 0 in GGUF files
  o.embed_scale = std::sqrt(static_cast<float>(c.hidden_size));
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
  }
  return o;
}

void set_rope(nn::DenseOptions& o, const RopeConfig& rope, bool sliding_layers) {
  const nn::Rope table(rope);
  for (nn::GqaOptions& layer : o.attention) {
    if ((layer.window > 0) == sliding_layers) layer.rope = table;
  }
  o.max_positions = std::max(o.max_positions, rope.usable_positions());
}

LoadedModel load_gemma(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 8192, .num_kv_heads = 16, .head_dim = 256});
  nn::DenseOptions o = gemma_options(json, c);
  // The first configs say "gelu" and mean its tanh form.
  const char* key = json.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  o.mlp.activation = json.str_or(key, "gelu") == "gelu"
                         ? ops::Activation::GeluTanh
                         : nn::activation_from(json, key, "gelu_pytorch_tanh");
  set_rope(o, nn::whole_head_rope(json, c), false);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

/// The parts that came with Gemma 2. `full_every`: one full layer among so many.
nn::DenseOptions gemma2_options(const io::Config& json, const nn::DenseConfig& c,
                                int64_t full_every, float score_cap, float logit_cap) {
  nn::DenseOptions o = gemma_options(json, c);
  o.block.names = nn::kSandwichNorms;
  o.mlp.activation = nn::activation_from(json, "hidden_activation", "gelu_pytorch_tanh");
  o.logit_softcap = nn::positive_or_null(json, "final_logit_softcapping", logit_cap);
  const int64_t every = json.size_or("sliding_window_pattern", full_every, 1, 4096);
  const std::vector<bool> sliding = nn::sliding_layers(json, c.num_layers, every);
  const auto scalar = nn::positive_or_null(json, "query_pre_attn_scalar", 256.0F, 256.0F);
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    nn::GqaOptions& a = o.attention[layer];
    a.scale = 1.0F / std::sqrt(scalar);
    a.softcap = nn::positive_or_null(json, "attn_logit_softcapping", score_cap);
    if (sliding[layer]) a.window = nn::window_from(json, "sliding_window", 4096);
  }
  return o;
}

LoadedModel load_gemma2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 8192, .num_kv_heads = 4, .head_dim = 256});
  nn::DenseOptions o = gemma2_options(json, c, 2, 50.0F, 30.0F);
  set_rope(o, nn::whole_head_rope(json, c), false);
  set_rope(o, nn::whole_head_rope(json, c), true);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_gemma3(const io::Config& root, const io::Weights& w) {
  const io::Config json = root.at_or_self("text_config");
  const nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 4, .head_dim = 256});
  json.expect("attn_logit_softcapping", "null");  // the reference has the key and ignores it
  nn::DenseOptions o = gemma2_options(json, c, 6, 0.0F, 0.0F);
  for (nn::GqaOptions& layer : o.attention) layer.qk_norm = nn::QkNorm{.norm = o.block.norm};
  set_rope(o, RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention", {.theta = 1e6}),
           false);
  set_rope(o,
           RopeConfig::from(json, c.head_dim, c.max_positions, "sliding_attention",
                            {.theta_key = "rope_local_base_freq", .flat_settings = false}),
           true);
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kGemma1 = {"gemma"};
constexpr std::array<std::string_view, 1> kGemma2Types = {"gemma2"};
constexpr std::array<std::string_view, 2> kGemma3Types = {"gemma3_text", "gemma3"};
constexpr std::array<std::string_view, 1> kGemma3Archs = {"gemma3"};
// The text model inside a vision checkpoint, by the names of both of its layouts.
constexpr std::array<io::Rename, 6> kGemma3Renames = {{
    {"language_model.model.*", "model.*"},
    {"language_model.lm_head.*", "lm_head.*"},
    {"model.language_model.*", "model.*"},
    {"*vision_tower.*", ""},
    {"*multi_modal_projector.*", ""},
    {"*vision_model.*", ""},
}};

}  // namespace

extern const Family kGemma;
const Family kGemma = {"gemma", "Gemma 1", "dense", kGemma1, kGemma1, {}, load_gemma};
extern const Family kGemma2;
const Family kGemma2 = {"gemma2", "Gemma 2", "dense", kGemma2Types, kGemma2Types, {}, load_gemma2};
extern const Family kGemma3;
const Family kGemma3 = {"gemma3",     "Gemma 3 (text)", "dense",    kGemma3Types,
                        kGemma3Archs, kGemma3Renames,   load_gemma3};

}  // namespace mlxcel::models
