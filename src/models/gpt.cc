// Decoders with LayerNorm and an MLP of two matrices:
//
//   GPT-2        learned positions; stored with the inputs of a matrix first (Conv1D)
//   GPT-NeoX     x + Attn(LN(x)) + F(LN'(x)), or one after the other; part of a head is rotated;
//                queries, keys and values stored head by head
//   StarCoder 2  biases everywhere, sliding window
//   Phi 1, 2     x + Attn(LN(x)) + F(LN(x)), a bias on the head too
//   StableLM     a gated MLP; parallel or not; norms of each query and key head with gains of its
//   own Nemotron     a LayerNorm that stores gain - 1, squared ReLU
//
// Papers: GPT-2 (Radford et al. 2019), GPT-NeoX-20B (arXiv:2204.06745), StarCoder 2
// (arXiv:2402.19173), phi-1 (arXiv:2306.11644), StableLM 2 (arXiv:2402.17834), Nemotron-4
// (arXiv:2402.16819).

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

using nn::Bias;

constexpr auto kLayerNorm = nn::NormOptions::Kind::LayerNorm;

nn::RopeConfig partial_rope(const io::Config& json, const nn::DenseConfig& c, double fraction) {
  return nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention",
                              {.partial_rotary_factor = fraction});
}

/// LayerNorm with a bias and an MLP of two matrices.
void use_plain_mlp(nn::DenseOptions& o, std::string_view up, std::string_view down) {
  o.block.norm.kind = kLayerNorm;
  o.block.norm.has_bias = true;
  o.mlp.gated = false;
  o.mlp.up = up;
  o.mlp.down = down;
}

LoadedModel load_gpt2(const io::Config& json, const io::Weights& w) {
  json.expect("scale_attn_by_inverse_layer_idx", "false");
  json.expect("add_cross_attention", "false");
  const int64_t hidden = json.size("n_embd", 1, int64_t{1} << 20);
  const nn::DenseConfig c(json, {.max_positions = 1024,
                                 .intermediate_size = 4 * hidden,
                                 .norm_eps = 1e-5F,
                                 .hidden_size_key = "n_embd",
                                 .intermediate_size_key = "n_inner",
                                 .max_positions_key = "n_positions",
                                 .num_layers_key = "n_layer",
                                 .num_heads_key = "n_head",
                                 .norm_eps_key = "layer_norm_epsilon"});
  nn::DenseOptions o = nn::dense_options(c);
  use_plain_mlp(o, "c_fc", "c_proj");
  o.block.names = {"ln_1", "", "ln_2", ""};
  o.attention_name = "attn";
  o.mlp.activation = nn::activation_from(json, "activation_function", "gelu_new");
  o.mlp.bias = Bias::Required;
  o.learned_positions = c.max_positions;
  for (nn::GqaOptions& layer : o.attention) {
    layer.fused_name = "c_attn";
    layer.o_name = "c_proj";
    layer.qkv_bias = layer.o_bias = Bias::Required;
    if (!json.flag_or("scale_attn_weights", true)) layer.scale = 1.0F;
  }
  // Three times as many outputs as inputs tell which comes first.
  const auto stored = w.at("model.layers.0.attn.c_attn").shape("weight");
  o.transposed_matrices = stored && *stored == Shape{c.hidden_size, 3 * c.hidden_size};
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_gpt_neox(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 2048, .norm_eps = 1e-5F, .norm_eps_key = "layer_norm_eps"});
  const auto rotary = nn::RopeConfig::from(
      json, c.head_dim, c.max_positions, "full_attention",
      {.partial_rotary_factor = 0.25,
       .theta_key = json.has("rotary_emb_base") ? "rotary_emb_base" : "rope_theta",
       .partial_key = "rotary_pct"});
  nn::DenseOptions o = nn::dense_options(c, rotary);
  use_plain_mlp(o, "dense_h_to_4h", "dense_4h_to_h");
  o.block.parallel = json.flag_or("use_parallel_residual", true);
  o.attention_name = "attention";
  o.mlp.activation = nn::activation_from(json, "hidden_act", "gelu");
  o.mlp.bias = Bias::Required;
  for (nn::GqaOptions& layer : o.attention) {
    layer.layout = nn::QkvLayout::Grouped;
    layer.fused_name = "query_key_value";
    layer.o_name = "dense";
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias", true);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_starcoder2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 4096,
                                 .num_kv_heads = 2,
                                 .norm_eps = 1e-5F,
                                 .norm_eps_key = "norm_epsilon"});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  use_plain_mlp(o, "c_fc", "c_proj");
  o.mlp.activation = nn::activation_from(json, "hidden_act", "gelu_pytorch_tanh");
  o.mlp.bias = nn::bias_from(json, "use_bias", true);
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = o.mlp.bias;
    layer.window = nn::window_from(json, "sliding_window", 0);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_phi(const io::Config& json, const io::Weights& w) {
  if (json.i64_or("num_local_experts", 1) > 1) {
    throw Error(Code::Unsupported, fmt::format("{}: num_local_experts = {} is not supported",
                                               json.source(), json.i64("num_local_experts")));
  }
  const nn::DenseConfig c(
      json, {.max_positions = 2048, .norm_eps = 1e-5F, .norm_eps_key = "layer_norm_eps"});
  nn::DenseOptions o = nn::dense_options(c, partial_rope(json, c, 0.5));
  use_plain_mlp(o, "fc1", "fc2");
  o.block.names = {"input_layernorm", "", "", ""};
  o.block.parallel = true;
  o.mlp.activation = nn::activation_from(json, "hidden_act", "gelu_new");
  o.mlp.bias = o.head_bias = Bias::Required;
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = Bias::Required;
    layer.o_name = "dense";
    if (json.flag_or("qk_layernorm", false)) {
      layer.qk_norm = nn::QkNorm{.norm = o.block.norm, .q = "q_layernorm", .k = "k_layernorm"};
    }
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_stablelm(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 4096,
                                 .num_kv_heads = 32,
                                 .norm_eps = 1e-5F,
                                 .norm_eps_key = "layer_norm_eps"});
  nn::DenseOptions o = nn::dense_options(c, partial_rope(json, c, 0.25));
  o.block.norm.kind = kLayerNorm;
  o.block.norm.has_bias = true;
  o.block.parallel = json.flag_or("use_parallel_residual", false);
  if (o.block.parallel) o.block.names = {"input_layernorm", "", "", ""};
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = nn::bias_from(json, "use_qkv_bias", false);
    if (json.flag_or("qk_layernorm", false)) {
      layer.qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::EachHead,
                                 .norm = {.kind = kLayerNorm, .eps = c.norm_eps},
                                 .q = "q_layernorm",
                                 .k = "k_layernorm"};
    }
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_nemotron(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json,
                          {.max_positions = 4096, .norm_eps = 1e-5F, .norm_eps_key = "norm_eps"});
  nn::DenseOptions o = nn::dense_options(c, partial_rope(json, c, 0.5));
  use_plain_mlp(o, "up_proj", "down_proj");
  o.block.norm.offset = json.f32_or("norm_gain_offset", 1.0F);  // 0 in GGUF files
  o.mlp.activation = nn::activation_from(json, "hidden_act", "relu2");
  o.mlp.bias = nn::bias_from(json, "mlp_bias");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

using Types1 = std::array<std::string_view, 1>;
constexpr Types1 kGpt2Types = {"gpt2"}, kNeoXTypes = {"gpt_neox"},
                 kStarCoder2Types = {"starcoder2"}, kPhiTypes = {"phi"},
                 kStableLmTypes = {"stablelm"}, kNemotronTypes = {"nemotron"}, kPhiArchs = {"phi2"};
constexpr std::array<io::Rename, 11> kGpt2Renames = {{
    {"transformer.*", "*"},
    {"model.h.*", "h.*"},
    {"model.wte.*", "wte.*"},
    {"model.wpe.*", "wpe.*"},
    {"model.ln_f.*", "ln_f.*"},
    {"h.*.attn.bias", ""},  // masks, not biases
    {"h.*.attn.masked_bias", ""},
    {"h.*", "model.layers.*"},
    {"wte.*", "model.embed_tokens.*"},
    {"wpe.*", "model.embed_positions.*"},
    {"ln_f.*", "model.norm.*"},
}};
constexpr std::array<io::Rename, 6> kNeoXRenames = {{
    {"gpt_neox.embed_in.*", "model.embed_tokens.*"},
    {"gpt_neox.final_layer_norm.*", "model.norm.*"},
    {"*.attention.bias", ""},  // masks, not biases
    {"*.attention.masked_bias", ""},
    {"gpt_neox.*", "model.*"},
    {"embed_out.*", "lm_head.*"},
}};
constexpr std::array<io::Rename, 1> kPhiRenames = {{{"model.final_layernorm.*", "model.norm.*"}}};

}  // namespace

extern const Family kGpt2, kGptNeoX, kStarCoder2, kPhi, kStableLm, kNemotron;
const Family kGpt2 = {"gpt2", "GPT-2", "dense", kGpt2Types, kGpt2Types, kGpt2Renames, load_gpt2};
const Family kGptNeoX = {"gpt_neox", "GPT-NeoX, Pythia", "dense",      kNeoXTypes,
                         {},         kNeoXRenames,       load_gpt_neox};
const Family kStarCoder2 = {
    "starcoder2", "StarCoder 2", "dense", kStarCoder2Types, kStarCoder2Types, {}, load_starcoder2};
const Family kPhi = {"phi", "Phi 1 / 2", "dense", kPhiTypes, kPhiArchs, kPhiRenames, load_phi};
const Family kStableLm = {"stablelm",     "StableLM", "dense",      kStableLmTypes,
                          kStableLmTypes, {},         load_stablelm};
const Family kNemotron = {"nemotron",     "Nemotron-4", "dense",      kNemotronTypes,
                          kNemotronTypes, {},           load_nemotron};

}  // namespace mlxcel::models
