#include "io/gguf_archs.h"

#include <fmt/core.h>

#include <cmath>

#include "base/error.h"
#include "io/quoted_name.h"

namespace mlxcel::io {
namespace {

using NameRow = GgufNameRow;
using KeyRow = GgufKeyRow;

constexpr KeyRow kDecoderKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"attention.sliding_window", "sliding_window"},
    {"rope.freq_base", "rope_theta", true},
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"attn_logit_softcapping", "attn_logit_softcapping", true},
    {"final_logit_softcapping", "final_logit_softcapping", true},
};
constexpr KeyRow kGraniteKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true},
    {"rope.freq_base", "rope_theta", true},
    {"attention.scale", "attention_multiplier", true},
    {"embedding_scale", "embedding_multiplier", true},
    {"residual_scale", "residual_multiplier", true},
    {"logit_scale", "logits_scaling", true},
};
// With LayerNorm; families differ in what they call its epsilon.
#define LAYER_NORM_KEYS(epsilon)                          \
  {                                                       \
      {"block_count", "num_hidden_layers"},               \
      {"context_length", "max_position_embeddings"},      \
      {"embedding_length", "hidden_size"},                \
      {"feed_forward_length", "intermediate_size"},       \
      {"attention.head_count", "num_attention_heads"},    \
      {"attention.head_count_kv", "num_key_value_heads"}, \
      {"attention.key_length", "head_dim"},               \
      {"attention.layer_norm_epsilon", epsilon, true},    \
      {"attention.sliding_window", "sliding_window"},     \
      {"rope.freq_base", "rope_theta", true},             \
      {"logit_scale", "logit_scale", true},               \
  }
constexpr KeyRow kLayerNormKeys[] = LAYER_NORM_KEYS("layer_norm_eps");
constexpr KeyRow kStarCoder2Keys[] = LAYER_NORM_KEYS("norm_epsilon");
constexpr KeyRow kNemotronKeys[] = LAYER_NORM_KEYS("norm_eps");
#undef LAYER_NORM_KEYS
constexpr KeyRow kGpt2Keys[] = {
    {"block_count", "n_layer"},
    {"context_length", "n_positions"},
    {"embedding_length", "n_embd"},
    {"feed_forward_length", "n_inner"},
    {"attention.head_count", "n_head"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", true},
};

constexpr NameRow kDecoderGlobals[] = {
    {"token_embd", "model.embed_tokens"},
    {"position_embd", "model.embed_positions"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"rope_freqs", "rope_freqs"},
    {"rope_factors_long", "rope_factors_long"},
    {"rope_factors_short", "rope_factors_short"},
};

constexpr NameRow kDecoderBlocks[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    // Only where they are no matrices of their own.
    {"attn_qkv", "self_attn.qkv_proj"},
};
// Norms before and after each part (Gemma 2 and 3) or only after it (OLMo 2, EXAONE 4).
constexpr NameRow kOuterNormBlocks[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr NameRow kPhi3Blocks[] = {
    {"attn_norm", "input_layernorm"},    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},      {"ffn_down", "mlp.down_proj"},
};
constexpr NameRow kStarCoder2Blocks[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};
constexpr NameRow kStableLmBlocks[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr NameRow kPhi2Blocks[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};
constexpr NameRow kGpt2Blocks[] = {
    {"attn_norm", "ln_1"}, {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
    {"ffn_norm", "ln_2"},  {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"},
};

bool has_tensor(const GgufMetadata& m, const char* name) {
  return m.file().tensor(name) != nullptr;
}

int64_t number(const Json& config, std::string_view key, int64_t fallback) {
  const Json* value = config.find(key);
  return value == nullptr || !value->is_int() ? fallback : value->as_int();
}

// The file's norms hold the whole gain where checkpoints hold gain - 1.
void whole_gains(Json& config, const GgufMetadata&) { config.set("norm_gain_offset", 0.0); }

// The scale of Gemma's scores is not in the file: it is that of a head, but of hidden_size / heads
// in the largest models, which their number of layers tells.
void adjust_gemma(Json& config, const GgufMetadata& m) {
  whole_gains(config, m);
  config.set("hidden_activation", "gelu_pytorch_tanh");
  const int64_t layers = number(config, "num_hidden_layers", 0);
  const int64_t heads = number(config, "num_attention_heads", 1);
  const bool by_width =
      (m.key("") == "gemma2." && layers == 46) || (m.key("") == "gemma3." && layers == 62);
  const int64_t scalar =
      by_width ? number(config, "hidden_size", 0) / heads : number(config, "head_dim", 256);
  config.set("query_pre_attn_scalar", scalar);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.find(key) == nullptr) config.set(key, Json());
  }
}

void adjust_stablelm(Json& config, const GgufMetadata& m) {
  config.set("use_parallel_residual", !has_tensor(m, "blk.0.ffn_norm.weight"));
  config.set("qk_layernorm", has_tensor(m, "blk.0.attn_q_norm.weight"));
  config.set("use_qkv_bias", has_tensor(m, "blk.0.attn_q.bias"));
}

void adjust_command_r(Json& config, const GgufMetadata& m) {
  config.set("use_qk_norm", has_tensor(m, "blk.0.attn_q_norm.weight"));
}

void adjust_starcoder2(Json& config, const GgufMetadata& m) {
  config.set("use_bias", has_tensor(m, "blk.0.attn_q.bias"));
}

void adjust_exaone4(Json& config, const GgufMetadata& m) {
  if (!m.has("attention.sliding_window")) config.set("sliding_window", Json());
}

constexpr GgufArch kArchs[] = {
    {"llama", "llama", "LlamaForCausalLM", true, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kDecoderBlocks},
    {"gemma", "gemma", "GemmaForCausalLM", false, kDecoderKeys, kDecoderGlobals, kDecoderBlocks,
     adjust_gemma},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", false, kDecoderKeys, kDecoderGlobals,
     kOuterNormBlocks, adjust_gemma},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, kDecoderKeys, kDecoderGlobals,
     kOuterNormBlocks, adjust_gemma},
    {"phi3", "phi3", "Phi3ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kPhi3Blocks},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", true, kDecoderKeys, kDecoderGlobals,
     kDecoderBlocks},
    {"granite", "granite", "GraniteForCausalLM", true, kGraniteKeys, kDecoderGlobals,
     kDecoderBlocks},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", false, kDecoderKeys, kDecoderGlobals, kOuterNormBlocks},
    {"exaone4", "exaone4", "Exaone4ForCausalLM", false, kDecoderKeys, kDecoderGlobals,
     kOuterNormBlocks, adjust_exaone4},
    {"ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", false, kDecoderKeys, kDecoderGlobals,
     kDecoderBlocks},
    {"command-r", "cohere", "CohereForCausalLM", false, kLayerNormKeys, kDecoderGlobals,
     kDecoderBlocks, adjust_command_r},
    {"cohere2", "cohere2", "Cohere2ForCausalLM", false, kLayerNormKeys, kDecoderGlobals,
     kDecoderBlocks},
    {"stablelm", "stablelm", "StableLmForCausalLM", false, kLayerNormKeys, kDecoderGlobals,
     kStableLmBlocks, adjust_stablelm},
    {"starcoder2", "starcoder2", "Starcoder2ForCausalLM", false, kStarCoder2Keys, kDecoderGlobals,
     kStarCoder2Blocks, adjust_starcoder2},
    {"phi2", "phi", "PhiForCausalLM", false, kLayerNormKeys, kDecoderGlobals, kPhi2Blocks},
    {"nemotron", "nemotron", "NemotronForCausalLM", false, kNemotronKeys, kDecoderGlobals,
     kDecoderBlocks, whole_gains},
    {"gpt2", "gpt2", "GPT2LMHeadModel", false, kGpt2Keys, kDecoderGlobals, kGpt2Blocks},
};

}  // namespace

std::string GgufMetadata::key(std::string_view suffix) const {
  return fmt::format("{}.{}", arch_, suffix);
}

double GgufMetadata::real(std::string_view suffix, double fallback) const {
  const double v = file_.f64_or(key(suffix), fallback);
  if (!std::isfinite(v)) {
    throw Error(Code::InvalidArgument, fmt::format("{}: metadata key {} must be finite",
                                                   file_.path(), quote(key(suffix))));
  }
  return v;
}

int64_t GgufMetadata::integer(std::string_view suffix, int64_t fallback) const {
  const GgufFile::Value* value = file_.find(key(suffix));
  const auto* list = value == nullptr ? nullptr : std::get_if<GgufNumbers>(value);
  if (list == nullptr || !list->integral() || list->count == 0) {
    return file_.i64_or(key(suffix), fallback);
  }
  const int64_t first = list->i64(0);
  for (uint64_t i = 1; i < list->count; ++i) {
    if (list->i64(i) != first) {
      throw Error(Code::Unsupported,
                  fmt::format("{}: metadata key {} differs from layer to layer, which is not "
                              "supported",
                              file_.path(), quote(key(suffix))));
    }
  }
  return first;
}

const GgufArch* find_gguf_arch(std::string_view name) {
  for (const GgufArch& row : kArchs) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string known_gguf_archs() {
  std::string known;
  for (const GgufArch& each : kArchs) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  }
  return known;
}

std::span<const GgufKeyRow> llama_gguf_keys() { return kDecoderKeys; }

}  // namespace mlxcel::io
