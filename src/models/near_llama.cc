// Decoders that differ from Llama's in one or two switches:
//
//   SmolLM3       layers without positions, every fourth unless `no_rope_layers` lists them
//   Seed-OSS      a bias on queries, keys and values, another flag for the output projection
//   ERNIE 4.5     rotary positions turn neighbouring pairs; `use_bias` is for all projections
//   Hunyuan       norms of query and key heads after the rotation; "dynamic" with `alpha` is a
//   fixed
//                 base
//   Helium        neighbouring pairs, which no config key says
//   InternLM 2    queries, keys and values stored group by group, other names
//   InternLM 3    `qkv_bias` and `bias`
//   Ministral 3   queries scaled by the logarithm of their position
//   Apertus       xIELU without a gate, norms of query and key heads
//
// SmolLM3 (huggingface.co/blog/smollm3), InternLM2 (arXiv:2403.17297), Helium
// (kyutai.org/2025/01/13/helium.html), Apertus (arXiv:2509.14233), xIELU (arXiv:2411.13010).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

nn::DenseOptions llama_options(const io::Config& json, const nn::DenseConfig& c,
                               const nn::RopeConfig& rope) {
  nn::DenseOptions o = nn::dense_options(c, rope);
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  o.mlp.bias = nn::bias_from(json, "mlp_bias");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
  }
  return o;
}

nn::RopeConfig rope(const io::Config& json, const nn::DenseConfig& c,
                    const nn::RopeConfig::Defaults& defaults) {
  return nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention", defaults);
}

/// Whether each layer of SmolLM3 rotates.
std::vector<bool> rotating_layers(const io::Config& json, int64_t num_layers) {
  const std::vector<int64_t> listed = json.i64s("no_rope_layers");  // 1 = rotates
  const int64_t every = json.size_or("no_rope_layer_interval", 4, 1, 4096);
  if (!listed.empty() && static_cast<int64_t>(listed.size()) < num_layers) {
    throw Error(Code::InvalidArgument,
                json.source() + ": no_rope_layers is shorter than the model");
  }
  std::vector<bool> out;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    out.push_back(listed.empty() ? (layer + 1) % every != 0
                                 : listed[static_cast<size_t>(layer)] != 0);
  }
  return out;
}

LoadedModel load_smollm3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 4});
  nn::DenseOptions o = llama_options(json, c, rope(json, c, {.theta = 2e6}));
  const std::vector<bool> rotating = rotating_layers(json, c.num_layers);
  const std::vector<bool> sliding = nn::sliding_layers(json, c.num_layers);
  const int32_t window =
      json.flag_or("use_sliding_window", false) ? nn::window_from(json, "sliding_window", 0) : 0;
  for (size_t layer = 0; layer < rotating.size(); ++layer) {
    if (!rotating[layer]) o.attention[layer].rope.reset();
    // Without a list the layers without positions are those that slide.
    if (sliding.empty() ? !rotating[layer] : sliding[layer]) o.attention[layer].window = window;
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_seed_oss(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 524288, .num_kv_heads = 8, .head_dim = 128});
  nn::DenseOptions o = llama_options(json, c, nn::whole_head_rope(json, c));
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = nn::bias_from(json, "attention_bias", true);
    layer.o_bias = nn::bias_from(json, "attention_out_bias", false);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_ernie(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 131072, .num_kv_heads = 2, .head_dim = 128, .norm_eps = 1e-5F});
  nn::DenseOptions o =
      llama_options(json, c, rope(json, c, {.theta = 500000.0, .interleaved = true}));
  o.mlp.bias = nn::bias_from(json, "use_bias", false);
  for (nn::GqaOptions& layer : o.attention) layer.qkv_bias = layer.o_bias = o.mlp.bias;
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_hunyuan(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048, .norm_eps = 1e-5F});
  nn::DenseOptions o = llama_options(json, c, rope(json, c, {.fixed_alpha = true}));
  for (nn::GqaOptions& layer : o.attention) {
    layer.qk_norm = nn::QkNorm{
        .norm = o.block.norm, .after_rope = true, .q = "query_layernorm", .k = "key_layernorm"};
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_helium(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 4096, .num_kv_heads = 20, .head_dim = 128, .norm_eps = 1e-8F});
  nn::DenseOptions o =
      llama_options(json, c, rope(json, c, {.theta = 100000.0, .interleaved = true}));
  for (nn::GqaOptions& layer : o.attention) layer.o_bias = nn::Bias::None;
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_internlm2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768});
  nn::DenseOptions o = llama_options(json, c, nn::whole_head_rope(json, c));
  o.block.names = {"attention_norm", "", "ffn_norm", ""};
  o.attention_name = "attention";
  o.mlp_name = "feed_forward";
  o.mlp.gate = "w1";
  o.mlp.up = "w3";
  o.mlp.down = "w2";
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "bias");
    layer.layout = nn::QkvLayout::Grouped;
    layer.fused_name = "wqkv";
    layer.o_name = "wo";
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_internlm3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json, {.max_positions = 32768, .num_kv_heads = 2, .head_dim = 128, .norm_eps = 1e-5F});
  nn::DenseOptions o = llama_options(json, c, nn::whole_head_rope(json, c));
  o.mlp.bias = nn::bias_from(json, json.has("bias") ? "bias" : "mlp_bias");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = nn::bias_from(json, json.has("qkv_bias") ? "qkv_bias" : "attention_bias");
    layer.o_bias = o.mlp.bias;
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

LoadedModel load_ministral3(const io::Config& root, const io::Weights& w) {
  const io::Config json = root.at_or_self("text_config");
  const nn::DenseConfig c(
      json, {.max_positions = 262144, .num_kv_heads = 8, .head_dim = 128, .norm_eps = 1e-5F});
  nn::DenseOptions o = llama_options(json, c, nn::whole_head_rope(json, c));
  const io::Config rotary = json.at_or_self("rope_parameters");
  const float beta = rotary.f32_or("llama_4_scaling_beta", 0.0F);
  for (nn::GqaOptions& layer : o.attention) {
    layer.window = nn::window_from(json, "sliding_window", 0);
    layer.position_beta = beta;
    if (beta != 0.0F) layer.position_period = rotary.size("original_max_position_embeddings");
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

/// Without any rotary settings Apertus scales as Llama 3 does.
io::Config with_apertus_rope(const io::Config& json) {
  if (json.has("rope_parameters") || json.has("rope_scaling")) return json;
  Json rotary = Json::object();
  rotary.set("rope_type", "llama3");
  rotary.set("rope_theta", 12e6);
  rotary.set("factor", 8.0);
  rotary.set("original_max_position_embeddings", 8192);
  rotary.set("low_freq_factor", 1.0);
  rotary.set("high_freq_factor", 4.0);
  Json all = json.json();
  all.set("rope_parameters", std::move(rotary));
  return io::Config::from_json(std::move(all), json.source());
}

LoadedModel load_apertus(const io::Config& given, const io::Weights& w) {
  const io::Config json = with_apertus_rope(given);
  const nn::DenseConfig c(json, {.max_positions = 65536, .norm_eps = 1e-5F});
  nn::DenseOptions o = nn::dense_options(c, rope(json, c, {.theta = 12e6}));
  o.block.names = {"attention_layernorm", "", "feedforward_layernorm", ""};
  o.mlp.gated = false;
  o.mlp.learned_xielu = json.str_or("hidden_act", "xielu") == "xielu";
  if (!o.mlp.learned_xielu) o.mlp.activation = nn::activation_from(json, "hidden_act", "xielu");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
    layer.qk_norm = nn::QkNorm{.norm = o.block.norm};
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

using Types1 = std::array<std::string_view, 1>;
constexpr Types1 kSmolLm3Types = {"smollm3"}, kSeedOssTypes = {"seed_oss"},
                 kErnieTypes = {"ernie4_5"}, kHunyuanTypes = {"hunyuan_v1_dense"},
                 kHeliumTypes = {"helium"}, kInternLm2Types = {"internlm2"},
                 kInternLm3Types = {"internlm3"}, kApertusTypes = {"apertus"};
constexpr std::array<std::string_view, 2> kMinistral3Types = {"ministral3", "mistral3"};
constexpr std::array<io::Rename, 2> kInternLm2Renames = {{
    {"model.tok_embeddings.*", "model.embed_tokens.*"},
    {"output.*", "lm_head.*"},
}};
constexpr std::array<io::Rename, 5> kMinistral3Renames = {{
    {"language_model.model.*", "model.*"},
    {"language_model.lm_head.*", "lm_head.*"},
    {"model.language_model.*", "model.*"},
    {"*vision_tower.*", ""},
    {"*multi_modal_projector.*", ""},
}};

}  // namespace

extern const Family kSmolLm3, kSeedOss, kErnie45, kHunyuanDense, kHelium, kInternLm2, kInternLm3,
    kMinistral3, kApertus;
const Family kSmolLm3 = {"smollm3",     "SmolLM3", "dense",     kSmolLm3Types,
                         kSmolLm3Types, {},        load_smollm3};
const Family kSeedOss = {"seed_oss", "Seed-OSS", "dense", kSeedOssTypes, {}, {}, load_seed_oss};
const Family kErnie45 = {"ernie4_5",  "ERNIE 4.5", "dense",   kErnieTypes,
                         kErnieTypes, {},          load_ernie};
const Family kHunyuanDense = {"hunyuan_v1_dense", "Hunyuan dense", "dense", kHunyuanTypes, {}, {},
                              load_hunyuan};
const Family kHelium = {"helium", "Helium", "dense", kHeliumTypes, {}, {}, load_helium};
const Family kInternLm2 = {"internlm2", "InternLM 2",      "dense",       kInternLm2Types,
                           {},          kInternLm2Renames, load_internlm2};
const Family kInternLm3 = {"internlm3", "InternLM 3", "dense",       kInternLm3Types,
                           {},          {},           load_internlm3};
const Family kMinistral3 = {"ministral3", "Ministral 3",      "dense",        kMinistral3Types,
                            {},           kMinistral3Renames, load_ministral3};
const Family kApertus = {"apertus", "Apertus", "dense", kApertusTypes, {}, {}, load_apertus};

}  // namespace mlxcel::models
