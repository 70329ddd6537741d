#include "apps/kv_geometry.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace mlxcel::apps {
namespace {

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t mul(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? kMax : out;
}

int64_t add(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? kMax : out;
}

int64_t round256(int64_t tokens) { return (tokens + 255) / 256 * 256; }

bool is_pure_recurrent(std::string_view model_type) {
  return model_type == "mamba" || model_type == "mamba2" || model_type == "falcon_mamba" ||
         model_type.starts_with("rwkv");
}

enum class LayerKind : uint8_t { Full, Sliding, Recurrent };

LayerKind kind_of(std::string_view name) {
  if (name.find("sliding") != std::string_view::npos) return LayerKind::Sliding;
  if (name.find("linear") != std::string_view::npos || name == "mamba" || name == "mamba2" ||
      name == "recurrent" || name == "conv" || name == "mlp" || name == "moe") {
    return LayerKind::Recurrent;
  }
  return LayerKind::Full;
}

/// Kinds from a list of names under `key`; empty when there is none.
std::vector<LayerKind> listed_kinds(const io::Config& text, std::string_view key) {
  const Json* list = text.json().find(key);
  std::vector<LayerKind> kinds;
  if (list == nullptr || !list->is_array()) return kinds;
  for (const Json& name : list->as_array()) {
    if (name.is_string()) kinds.push_back(kind_of(name.as_string()));
  }
  return kinds;
}

std::vector<LayerKind> layer_kinds(const io::Config& text, int64_t layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    if (auto kinds = listed_kinds(text, key); !kinds.empty()) return kinds;
  }
  const auto count = static_cast<size_t>(layers);
  // RecurrentGemma repeats a short pattern over its layers.
  if (const auto pattern = listed_kinds(text, "block_types"); !pattern.empty()) {
    std::vector<LayerKind> kinds(count);
    for (size_t i = 0; i < count; ++i) kinds[i] = pattern[i % pattern.size()];
    return kinds;
  }
  if (const Json* p = text.json().find("hybrid_override_pattern"); p != nullptr && p->is_string()) {
    std::vector<LayerKind> kinds;
    for (const char c : p->as_string()) {
      kinds.push_back(c == '*' ? LayerKind::Full : LayerKind::Recurrent);
    }
    return kinds;
  }
  std::vector<LayerKind> kinds(count, LayerKind::Full);
  const auto every = [&](int64_t period, int64_t offset, LayerKind others) {
    for (int64_t i = 0; i < layers; ++i) {
      if (i % period != offset) kinds[static_cast<size_t>(i)] = others;
    }
  };
  if (text.has("attn_layer_period")) {
    const int64_t period = text.size("attn_layer_period");
    every(period, text.size_or("attn_layer_offset", 0, 0) % period, LayerKind::Recurrent);
  } else if (text.has("full_attention_interval")) {
    const int64_t period = text.size("full_attention_interval");
    every(period, period - 1, LayerKind::Recurrent);
  } else if (text.has("sliding_window_pattern") && text.has("sliding_window")) {
    const int64_t period = text.size("sliding_window_pattern");
    every(period, period - 1, LayerKind::Sliding);
  }
  return kinds;
}

/// Elements of one attention layer, without layers and window.
KvGroup attention_elements(const io::Config& text, std::string_view model_type,
                           std::string& detail) {
  KvGroup g;
  const int64_t heads = text.size_or("num_attention_heads", text.size_or("n_head", 32));
  const int64_t hidden = text.size_or("hidden_size", text.size_or("n_embd", 4096));
  if (text.has("kv_lora_rank")) {
    const int64_t rope = text.size_or("qk_rope_head_dim", 64);
    if (model_type == "deepseek_v2") {
      const int64_t nope = text.size_or("qk_nope_head_dim", 128);
      g.k_elements = mul(heads, add(nope, rope));
      g.v_elements = mul(heads, text.size_or("v_head_dim", 128));
      detail = fmt::format("{} heads x ({} + {}), expanded latent attention", heads, nope, rope);
    } else {
      g.k_elements = add(text.size("kv_lora_rank"), rope);
      detail = fmt::format("latent {} + {}", text.size("kv_lora_rank"), rope);
    }
    return g;
  }
  const int64_t kv_heads = text.size_or("num_key_value_heads", heads);
  const int64_t head_dim = text.size_or("head_dim", std::max<int64_t>(1, hidden / heads));
  g.k_elements = g.v_elements = mul(kv_heads, head_dim);
  detail = fmt::format("{} kv heads x {}", kv_heads, head_dim);
  return g;
}

}  // namespace

int64_t KvGroup::cached_tokens(int64_t context) const {
  const int64_t all = round256(context);
  return window > 0 ? std::min(all, round256(window)) : all;
}

int64_t KvGeometry::k_elements_per_token() const {
  int64_t sum = 0;
  for (const KvGroup& g : groups) sum = add(sum, mul(g.k_elements, g.layers));
  return sum;
}

int64_t KvGeometry::v_elements_per_token() const {
  int64_t sum = 0;
  for (const KvGroup& g : groups) sum = add(sum, mul(g.v_elements, g.layers));
  return sum;
}

io::Config text_section(const io::Config& config) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (const Json* section = config.json().find(key); section != nullptr && section->is_object()) {
      return config.at(key);
    }
  }
  return config;
}

KvGeometry kv_geometry(const io::Config& config) {
  const io::Config text = text_section(config);
  const std::string model_type = text.str_or("model_type", config.str_or("model_type", ""));
  KvGeometry out;
  if (is_pure_recurrent(model_type)) {
    out.detail = "recurrent state only";
    return out;
  }
  const int64_t layers = text.size_or(
      "num_hidden_layers", text.size_or("n_layer", text.size_or("num_layers", 32)), 1, kMaxLayers);
  std::string elements;
  KvGroup full = attention_elements(text, model_type, elements);
  KvGroup sliding = full;
  sliding.window = text.size_or("sliding_window", 0, 0);
  for (const LayerKind kind : layer_kinds(text, layers)) {
    full.layers += kind == LayerKind::Full ? 1 : 0;
    sliding.layers += kind == LayerKind::Sliding ? 1 : 0;
  }
  if (full.layers > 0) out.groups.push_back(full);
  if (sliding.layers > 0) out.groups.push_back(sliding);
  out.detail = fmt::format("{} layers x {}", full.layers + sliding.layers, elements);
  if (sliding.layers > 0) {
    out.detail += fmt::format(", {} of them with a window of {}", sliding.layers, sliding.window);
  }
  return out;
}

int64_t analytical_parameters(const io::Config& config) {
  const io::Config text = text_section(config);
  if (!text.has("hidden_size") || !text.has("num_hidden_layers") || !text.has("vocab_size")) {
    return 0;
  }
  const int64_t hidden = text.size("hidden_size");
  const int64_t layers = text.size("num_hidden_layers", 1, kMaxLayers);
  const int64_t inner = text.size_or("intermediate_size", mul(hidden, 4));
  const int64_t heads = text.size_or("num_attention_heads", 32);
  const int64_t head_dim = text.size_or("head_dim", std::max<int64_t>(1, hidden / heads));
  const int64_t kv_heads = text.size_or("num_key_value_heads", heads);
  const int64_t attention = mul(mul(hidden, head_dim), add(mul(heads, 2), mul(kv_heads, 2)));
  const int64_t feed_forward = mul(mul(hidden, inner), 3);
  const int64_t embeddings =
      mul(mul(text.size("vocab_size"), hidden), text.flag_or("tie_word_embeddings", false) ? 1 : 2);
  return add(mul(layers, add(attention, feed_forward)), embeddings);
}

}  // namespace mlxcel::apps
