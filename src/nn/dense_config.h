// The sizes and schedules that dense decoders read from config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/config.h"
#include "nn/layers.h"
#include "nn/rope.h"

namespace mlxcel::nn {

/// Sizes, with bounds that keep any product of two of them within 63 bits. Throws InvalidArgument
/// naming the key.
struct DenseConfig {
  int64_t hidden_size, intermediate_size, vocab_size, max_positions;
  int64_t num_layers, num_heads, num_kv_heads, head_dim;
  float norm_eps;
  std::optional<bool> tie_word_embeddings;

  /// Values that a config may leave out, and the keys of families that have names of their own.
  /// `num_kv_heads` 0 means num_heads, `head_dim` 0 means hidden_size / num_heads,
  /// `intermediate_size` 0 means that the key must be there.
  struct Defaults {
    int64_t max_positions = 2048, num_kv_heads = 0, head_dim = 0, intermediate_size = 0;
    float norm_eps = 1e-6F;
    std::string_view hidden_size_key = "hidden_size", intermediate_size_key = "intermediate_size",
                     max_positions_key = "max_position_embeddings",
                     num_layers_key = "num_hidden_layers", num_heads_key = "num_attention_heads",
                     norm_eps_key = "rms_norm_eps";
  };
  DenseConfig(const io::Config& c, const Defaults& defaults);
};

/// How a flag such as "attention_bias" decides about biases: absent leaves it to the checkpoint.
Bias bias_from(const io::Config& c, std::string_view key);
/// The same where an absent flag has a known meaning.
Bias bias_from(const io::Config& c, std::string_view key, bool fallback);

/// A number above 0 at `key`: `fallback` when it is absent, `null_value` when it is null.
float positive_or_null(const io::Config& c, std::string_view key, float fallback,
                       float null_value = 0.0F);

/// A window size at `key`: `fallback` when it is absent, 0 (none) when it is null.
int32_t window_from(const io::Config& c, std::string_view key, int32_t fallback);

/// Whether each layer slides, from `layer_types`; empty when the key is absent. Throws Unsupported
/// naming the entry for any type but "full_attention" and "sliding_attention".
std::vector<bool> sliding_layers(const io::Config& c, int64_t num_layers);
/// The same with a fallback: every `pattern`-th layer is full, the others slide.
std::vector<bool> sliding_layers(const io::Config& c, int64_t num_layers, int64_t pattern);

/// Windows of the layers (0 = full attention) from use_sliding_window, sliding_window,
/// max_window_layers and layer_types, as Qwen 2 and Qwen 3 define them.
std::vector<int32_t> qwen_windows(const io::Config& c, int64_t num_layers);

}  // namespace mlxcel::nn
