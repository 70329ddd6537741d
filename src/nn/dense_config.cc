#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "nn/gqa_block.h"

namespace mlxcel::nn {
namespace {

// Far above any published model, and small enough that sizes multiply safely.
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

int64_t head_size(const io::Config& c, int64_t hidden_size, int64_t num_heads, int64_t fallback) {
  if (c.has("head_dim") || fallback > 0) return c.size_or("head_dim", fallback, 1, 4096);
  if (hidden_size % num_heads != 0) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: hidden_size = {} is not a multiple of num_attention_heads = {} and "
                    "there is no head_dim",
                    c.source(), hidden_size, num_heads));
  }
  return hidden_size / num_heads;
}

float norm_epsilon(const io::Config& c) {
  const float eps = c.f32_or("rms_norm_eps", 1e-6F);
  if (!(eps >= 0.0F) || !std::isfinite(eps)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: rms_norm_eps = {} must not be negative", c.source(), eps));
  }
  return eps;
}

std::optional<bool> optional_flag(const io::Config& c, std::string_view key) {
  if (!c.has(key)) return std::nullopt;
  return c.flag_or(key, false);
}

}  // namespace

DenseConfig::DenseConfig(const io::Config& c, const Defaults& defaults)
    : hidden_size(c.size("hidden_size", 1, kMaxWidth)),
      intermediate_size(c.size("intermediate_size", 1, 4 * kMaxWidth)),
      vocab_size(c.size("vocab_size", 1, kMaxVocab)),
      max_positions(c.size_or("max_position_embeddings", defaults.max_positions, 1, kMaxPositions)),
      num_layers(c.size("num_hidden_layers", 1, kMaxLayers)),
      num_heads(c.size("num_attention_heads", 1, kMaxHeads)),
      num_kv_heads(c.size_or("num_key_value_heads",
                             defaults.num_kv_heads > 0 ? defaults.num_kv_heads : num_heads, 1,
                             kMaxHeads)),
      head_dim(head_size(c, hidden_size, num_heads, defaults.head_dim)),
      rms_norm_eps(norm_epsilon(c)),
      tie_word_embeddings(optional_flag(c, "tie_word_embeddings")) {
  if (num_heads % num_kv_heads != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: num_attention_heads = {} is not a multiple of "
                            "num_key_value_heads = {}",
                            c.source(), num_heads, num_kv_heads));
  }
  c.expect("hidden_act", "silu");
}

Bias bias_from(const io::Config& c, std::string_view key) {
  if (!c.has(key)) return Bias::IfPresent;
  return c.flag_or(key, false) ? Bias::Required : Bias::None;
}

std::vector<int32_t> qwen_windows(const io::Config& c, int64_t num_layers) {
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  int32_t window = 0;
  if (c.flag_or("use_sliding_window", false)) {
    window = static_cast<int32_t>(c.size_or("sliding_window", 4096, 1, kMaxPositions));
    if (const Json* given = c.json().find("sliding_window"); given && given->is_null()) window = 0;
  }
  if (c.has("layer_types")) {
    const auto& types = c.json().find("layer_types")->as_array();
    if (static_cast<int64_t>(types.size()) != num_layers) {
      throw Error(Code::InvalidArgument, fmt::format("{}: layer_types has {} entries for {} layers",
                                                     c.source(), types.size(), num_layers));
    }
    for (size_t layer = 0; layer < types.size(); ++layer) {
      const std::string& type = types[layer].as_string();
      if (type == "full_attention") continue;
      if (type != "sliding_attention") {
        throw Error(Code::Unsupported, fmt::format("{}: layer_types[{}] = \"{}\" is not supported",
                                                   c.source(), layer, type));
      }
      if (window == 0) {
        throw Error(Code::InvalidArgument,
                    fmt::format("{}: layer_types[{}] = \"{}\", but use_sliding_window is off or "
                                "sliding_window is not given",
                                c.source(), layer, type));
      }
      windows[layer] = window;
    }
    return windows;
  }
  const int64_t first = c.size_or("max_window_layers", 28, 0, kMaxLayers);
  for (int64_t layer = first; layer < num_layers; ++layer) {
    windows[static_cast<size_t>(layer)] = window;
  }
  return windows;
}

}  // namespace mlxcel::nn
