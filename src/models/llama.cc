// Llama and Mistral: pre-norm decoders with grouped-query attention, rotary positions and a SwiGLU
// MLP (the block of nn/gqa_block.h). Mistral adds a sliding window: a token sees itself and the
// `sliding_window` - 1 tokens before it, in every layer.
//
// Papers: LLaMA (arXiv:2302.13971), Llama 3 (arXiv:2407.21783), Mistral 7B (arXiv:2310.06825).
// The defaults of absent keys are those of the transformers configuration classes.

#include <array>

#include "models/family.h"
#include "nn/gqa_block.h"

namespace mlxcel::models {
namespace {

/// Absent means 4096, null means none.
int32_t mistral_window(const io::Config& c) {
  const Json* given = c.json().find("sliding_window");
  if (given != nullptr && given->is_null()) return 0;
  return static_cast<int32_t>(c.size_or("sliding_window", 4096, 1, int64_t{1} << 30));
}

LoadedModel load_llama(const io::Config& json, const io::Weights& w) {
  const bool mistral = lower_case(json.str("model_type")) == "mistral";
  const nn::DenseConfig c(
      json, {.max_positions = mistral ? 131072 : 2048, .num_kv_heads = mistral ? 8 : 0});
  nn::PreNormOptions options{.qkv_bias = nn::bias_from(json, "attention_bias"),
                             .o_bias = nn::bias_from(json, "attention_bias"),
                             .mlp_bias = nn::bias_from(json, "mlp_bias")};
  if (mistral) options.windows.assign(static_cast<size_t>(c.num_layers), mistral_window(json));
  return {.lm = nn::make_pre_norm_decoder(c, options, json, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"llama", "mistral"};
constexpr std::array<std::string_view, 1> kArchs = {"llama"};

}  // namespace

extern const Family kLlama;
const Family kLlama = {"llama", "Llama 1/2/3, Mistral", "dense", kTypes, kArchs, {}, load_llama};

}  // namespace mlxcel::models
