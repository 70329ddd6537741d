// Grouped-query attention (arXiv:2305.13245) and the pre-norm block around it, which the Llama,
// Mistral and Qwen families share:
//
//   a = x + Attn(RMSNorm(x))
//   y = a + SwiGLU(RMSNorm(a))
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "io/config.h"
#include "nn/decoder.h"
#include "nn/layers.h"
#include "nn/rope.h"

namespace mlxcel::nn {

/// The sizes that every dense decoder reads from config.json, with bounds that keep any product of
/// two of them within 63 bits. Throws InvalidArgument naming the key, or Unsupported for an
/// activation other than SiLU.
struct DenseConfig {
  int64_t hidden_size, intermediate_size, vocab_size, max_positions;
  int64_t num_layers, num_heads, num_kv_heads, head_dim;
  float rms_norm_eps;
  std::optional<bool> tie_word_embeddings;

  /// Values that a config may leave out. `num_kv_heads` 0 means num_heads, `head_dim` 0 means
  /// hidden_size / num_heads.
  struct Defaults {
    int64_t max_positions = 2048, num_kv_heads = 0, head_dim = 0;
  };
  DenseConfig(const io::Config& c, const Defaults& defaults);
};

/// How a flag such as "attention_bias" decides about biases: absent leaves it to the checkpoint.
Bias bias_from(const io::Config& c, std::string_view key);

/// Windows of the layers (0 = full attention) from use_sliding_window, sliding_window,
/// max_window_layers and layer_types, as Qwen 2 and Qwen 3 define them.
std::vector<int32_t> qwen_windows(const io::Config& c, int64_t num_layers);

/// One attention layer.
struct GqaOptions {
  int64_t hidden_size = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t window = 0;  // 0 = full causal attention
  Bias qkv_bias = Bias::None, o_bias = Bias::None;
  std::optional<float> qk_norm_eps;  // RMSNorm of every query and key head before the rotation
};

/// softmax(rope(q) rope(k)^T / sqrt(Dh)) v, then the output projection.
class GqaAttention {
 public:
  /// `w` holds q_proj, k_proj, v_proj, o_proj, and q_norm and k_norm when they are used.
  GqaAttention(const GqaOptions& options, const io::Weights& w, const Rope& rope, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const;  // [T, D] -> [T, D]
  int64_t weight_bytes() const;

 private:
  GqaOptions options_;
  int layer_;
  Rope rope_;
  StackedLinear qkv_;
  Linear o_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

/// What a family of pre-norm decoders decides beyond its sizes.
struct PreNormOptions {
  Bias qkv_bias = Bias::None, o_bias = Bias::None, mlp_bias = Bias::None;
  bool qk_norm = false;
  std::vector<int32_t> windows{};  // one per layer; empty = full attention everywhere
};

/// A whole decoder of such blocks from a checkpoint with Hugging Face names.
std::unique_ptr<CausalLm> make_pre_norm_decoder(const DenseConfig& c, const PreNormOptions& options,
                                                const io::Config& json, const io::Weights& w);

}  // namespace mlxcel::nn
