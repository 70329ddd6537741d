// Gemma 4 (text): sandwich norms, norms of query, key and value heads, scores without a scale, five
// sliding layers to a full one with the last one full. What is its own:
//
//   - Full layers have heads of another size (`global_head_dim`), turn only the first pairs of a
//   head
//     ("proportional"), and may take the key projection for the values too (`attention_k_eq_v`).
//   - The last `num_kv_shared_layers` layers read the keys and values of the last layer of their
//   kind
//     before them; their MLP may be twice as wide.
//   - Every layer gets an input of the token beside the residual stream (nn/layer_inputs.h), and
//     multiplies its result by a learned number.
//
// https://ai.google.dev/gemma/docs

#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

/// The layer that each layer reads keys and values of, or -1 for its own.
std::vector<int> sources(const io::Config& json, const std::vector<bool>& sliding) {
  const auto layers = static_cast<int64_t>(sliding.size());
  const int64_t shared = json.size_or("num_kv_shared_layers", 0, 0, layers - 1);
  const auto first = static_cast<size_t>(layers - shared);
  std::vector<int> out(sliding.size(), -1);
  for (size_t layer = first; layer < sliding.size(); ++layer) {
    for (size_t before = 0; before < first; ++before) {
      if (sliding[before] == sliding[layer]) out[layer] = static_cast<int>(before);
    }
    if (out[layer] < 0) {
      throw Error(Code::InvalidArgument,
                  json.source() + ": num_kv_shared_layers leaves no layer of the same type before");
    }
  }
  return out;
}

nn::RopeConfig rope(const io::Config& json, const nn::DenseConfig& c, int64_t head_dim,
                    bool sliding) {
  if (json.has("rope_parameters")) {
    return nn::RopeConfig::from(json, head_dim, c.max_positions,
                                sliding ? "sliding_attention" : "full_attention");
  }
  nn::RopeConfig r;
  r.rotary_dim = head_dim;
  r.max_positions = c.max_positions;
  if (sliding) return r;
  r.type = nn::RopeConfig::Type::Proportional;
  r.theta = 1e6;
  r.moving = head_dim / 8;
  return r;
}

void set_attention(nn::DenseOptions& o, const io::Config& json, const nn::DenseConfig& c) {
  std::vector<bool> sliding = nn::sliding_layers(json, c.num_layers, 6);
  sliding.back() = false;
  const std::vector<int> source = sources(json, sliding);
  const int64_t global_dim = json.size_or("global_head_dim", 512, 2, 4096);
  const bool key_is_value = json.flag_or("attention_k_eq_v", false);
  const nn::Rope local(rope(json, c, c.head_dim, true)), global(rope(json, c, global_dim, false));
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    nn::GqaOptions& a = o.attention[layer];
    a.scale = 1.0F;
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.qk_norm = nn::QkNorm{.norm = o.block.norm};
    a.v_norm = o.block.norm;
    a.v_norm->has_gain = false;
    a.shared_from = source[layer];
    a.rope = sliding[layer] ? local : global;
    if (sliding[layer]) {
      a.window = nn::window_from(json, "sliding_window", 512);
      continue;
    }
    a.head_dim = global_dim;
    a.value_is_key = key_is_value;
    if (key_is_value) {
      a.num_kv_heads = json.size_or("num_global_key_value_heads", c.num_kv_heads, 1, c.num_heads);
    }
  }
}

LoadedModel load_gemma4(const io::Config& root, const io::Weights& w) {
  const io::Config json = root.at_or_self("text_config");
  json.expect("use_bidirectional_attention", "vision");  // which is of no matter for text
  json.expect("enable_moe_block", "false");
  json.expect("per_layer_config", "{}");
  const nn::DenseConfig c(json, {.max_positions = 131072, .num_kv_heads = 4, .head_dim = 256});
  nn::DenseOptions o = nn::dense_options(c);
  o.block.names = nn::kSandwichNorms;
  o.block.output_scale = true;
  o.embed_scale = std::sqrt(static_cast<float>(c.hidden_size));
  o.logit_softcap = nn::positive_or_null(json, "final_logit_softcapping", 0.0F);
  o.mlp.activation = nn::activation_from(json, "hidden_activation", "gelu_pytorch_tanh");
  set_attention(o, json, c);
  if (json.flag_or("use_double_wide_mlp", false)) {
    for (const nn::GqaOptions& a : o.attention) {
      o.intermediate_sizes.push_back(c.intermediate_size * (a.shared_from >= 0 ? 2 : 1));
    }
  }
  o.block.layer_inputs = {
      .hidden_size = c.hidden_size,
      .num_layers = c.num_layers,
      .dim = json.size_or("hidden_size_per_layer_input", 256, 0, 1 << 16),
      .vocab_size = json.size_or("vocab_size_per_layer_input", 262144, 1, 1 << 24),
      .activation = o.mlp.activation,
      .norm = o.block.norm};
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"gemma4_text", "gemma4"};
// The text model inside a multimodal checkpoint, by the names of both of its layouts.
constexpr std::array<io::Rename, 8> kRenames = {{
    {"language_model.model.*", "model.*"},
    {"language_model.lm_head.*", "lm_head.*"},
    {"model.language_model.*", "model.*"},
    {"*vision_tower.*", ""},
    {"*audio_tower.*", ""},
    {"*multi_modal_projector.*", ""},
    {"*embed_vision.*", ""},
    {"*embed_audio.*", ""},
}};

}  // namespace

extern const Family kGemma4;
const Family kGemma4 = {"gemma4", "Gemma 4 (text)", "dense", kTypes, {}, kRenames, load_gemma4};

}  // namespace mlxcel::models
