// Llama and Mistral: pre-norm decoders with grouped-query attention, rotary positions and a SwiGLU
// MLP. Mistral adds a sliding window: a token sees itself and the `sliding_window` - 1 tokens
// before it, in every layer.
//
// Papers: LLaMA (arXiv:2302.13971), Llama 3 (arXiv:2407.21783), Mistral 7B (arXiv:2310.06825).
// The defaults of absent keys are those of the transformers configuration classes.

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_llama(const io::Config& json, const io::Weights& w) {
  const bool mistral = lower_case(json.str("model_type")) == "mistral";
  const nn::DenseConfig c(
      json, {.max_positions = mistral ? 131072 : 2048, .num_kv_heads = mistral ? 8 : 0});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  o.mlp.bias = nn::bias_from(json, "mlp_bias");
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
    if (mistral) layer.window = nn::window_from(json, "sliding_window", 4096);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"llama", "mistral"};
constexpr std::array<std::string_view, 1> kArchs = {"llama"};

}  // namespace

extern const Family kLlama;
const Family kLlama = {"llama", "Llama 1/2/3, Mistral", "dense", kTypes, kArchs, {}, load_llama};

}  // namespace mlxcel::models
