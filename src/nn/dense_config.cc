#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "nn/dense_config.h"

namespace mlxcel::nn {
namespace {

// Far above any published model, and small enough that sizes multiply safely.
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxPositions = int64_t{1} << 30;

int64_t head_size(const io::Config& c, const DenseConfig::Defaults& defaults, int64_t hidden_size,
                  int64_t num_heads) {
  if (c.has("head_dim") || defaults.head_dim > 0) {
    return c.size_or("head_dim", defaults.head_dim, 1, 4096);
  }
  if (hidden_size % num_heads != 0) {
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: {} = {} is not a multiple of {} = {} and there is no head_dim", c.source(),
                    defaults.hidden_size_key, hidden_size, defaults.num_heads_key, num_heads));
  }
  return hidden_size / num_heads;
}

float norm_epsilon(const io::Config& c, std::string_view key, float fallback) {
  const float eps = c.f32_or(key, fallback);
  if (!(eps >= 0.0F) || !std::isfinite(eps)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} = {} must not be negative", c.source(), key, eps));
  }
  return eps;
}

int64_t mlp_size(const io::Config& c, const DenseConfig::Defaults& defaults) {
  const std::string_view key = defaults.intermediate_size_key;
  if (defaults.intermediate_size == 0) return c.size(key, 1, 4 * kMaxWidth);
  return c.size_or(key, defaults.intermediate_size, 1, 4 * kMaxWidth);
}

bool is_null(const io::Config& c, std::string_view key) {
  const Json* given = c.json().find(key);
  return given != nullptr && given->is_null();
}

std::optional<bool> optional_flag(const io::Config& c, std::string_view key) {
  if (!c.has(key)) return std::nullopt;
  return c.flag_or(key, false);
}

}  // namespace

DenseConfig::DenseConfig(const io::Config& c, const Defaults& defaults)
    : hidden_size(c.size(defaults.hidden_size_key, 1, kMaxWidth)),
      intermediate_size(mlp_size(c, defaults)),
      vocab_size(c.size("vocab_size", 1, kMaxVocab)),
      max_positions(
          c.size_or(defaults.max_positions_key, defaults.max_positions, 1, kMaxPositions)),
      num_layers(c.size(defaults.num_layers_key, 1, kMaxLayers)),
      num_heads(c.size(defaults.num_heads_key, 1, kMaxHeads)),
      num_kv_heads(c.size_or("num_key_value_heads",
                             defaults.num_kv_heads > 0 ? defaults.num_kv_heads : num_heads, 1,
                             kMaxHeads)),
      head_dim(head_size(c, defaults, hidden_size, num_heads)),
      norm_eps(norm_epsilon(c, defaults.norm_eps_key, defaults.norm_eps)),
      tie_word_embeddings(optional_flag(c, "tie_word_embeddings")) {
  if (num_heads % num_kv_heads != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} = {} is not a multiple of num_key_value_heads = {}", c.source(),
                            defaults.num_heads_key, num_heads, num_kv_heads));
  }
}

Bias bias_from(const io::Config& c, std::string_view key) {
  if (!c.has(key)) return Bias::IfPresent;
  return c.flag_or(key, false) ? Bias::Required : Bias::None;
}

Bias bias_from(const io::Config& c, std::string_view key, bool fallback) {
  return c.flag_or(key, fallback) ? Bias::Required : Bias::None;
}

float positive_or_null(const io::Config& c, std::string_view key, float fallback,
                       float null_value) {
  if (is_null(c, key)) return null_value;
  const float value = c.f32_or(key, fallback);
  if (c.has(key) && !(value > 0.0F)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} = {} must be above 0", c.source(), key, value));
  }
  return value;
}

int32_t window_from(const io::Config& c, std::string_view key, int32_t fallback) {
  if (is_null(c, key)) return 0;
  if (!c.has(key)) return fallback;
  return static_cast<int32_t>(c.size(key, 1, kMaxPositions));
}

std::vector<bool> sliding_layers(const io::Config& c, int64_t num_layers) {
  if (!c.has("layer_types")) return {};
  std::vector<bool> sliding;
  const auto& types = c.json().find("layer_types")->as_array();
  if (static_cast<int64_t>(types.size()) != num_layers) {
    throw Error(Code::InvalidArgument, fmt::format("{}: layer_types has {} entries for {} layers",
                                                   c.source(), types.size(), num_layers));
  }
  for (size_t layer = 0; layer < types.size(); ++layer) {
    const std::string& type = types[layer].as_string();
    if (type != "full_attention" && type != "sliding_attention") {
      throw Error(Code::Unsupported, fmt::format("{}: layer_types[{}] = \"{}\" is not supported",
                                                 c.source(), layer, type));
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

std::vector<bool> sliding_layers(const io::Config& c, int64_t num_layers, int64_t pattern) {
  std::vector<bool> sliding = sliding_layers(c, num_layers);
  for (auto layer = static_cast<int64_t>(sliding.size()); layer < num_layers; ++layer) {
    sliding.push_back((layer + 1) % pattern != 0);
  }
  return sliding;
}

std::vector<int32_t> qwen_windows(const io::Config& c, int64_t num_layers) {
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  int32_t window = 0;
  if (c.flag_or("use_sliding_window", false)) window = window_from(c, "sliding_window", 4096);
  const std::vector<bool> sliding = sliding_layers(c, num_layers);
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    if (!sliding[layer]) continue;
    if (window == 0) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{}: layer_types[{}] = \"sliding_attention\", but use_sliding_window "
                              "is off or sliding_window is not given",
                              c.source(), layer));
    }
    windows[layer] = window;
  }
  if (!sliding.empty()) return windows;
  const int64_t first = c.size_or("max_window_layers", 28, 0, kMaxLayers);
  for (int64_t layer = first; layer < num_layers; ++layer) {
    windows[static_cast<size_t>(layer)] = window;
  }
  return windows;
}

}  // namespace mlxcel::nn
