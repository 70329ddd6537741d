// Qwen 3.5 dense: three gated delta rule layers to one of gated full attention
// (nn/gated_delta_decoder.h), each with a SwiGLU MLP. Checkpoints are of vision-language models,
// whose text part this is: its settings lie in text_config, its tensors below
// model.language_model, or language_model in MLX conversions. Text has one position for all three
// axes of the rotary embedding, so their sections do not matter.
//
// Described at https://qwen.ai/blog; the mixer is that of Gated Delta Networks (arXiv:2412.06464).

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/gated_delta_decoder.h"

namespace mlxcel::models {
namespace {

void refuse_other_forms(const io::Config& json, const io::Config& text) {
  const Json* only = json.json().find("language_model_only");
  if (only != nullptr && !only->is_bool()) {
    throw Error(Code::Unsupported, fmt::format("{}: language_model_only = {} is not supported",
                                               json.source(), only->dump()));
  }
  text.expect("output_gate_type", "swish");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (text.has(key)) text.at(key).expect("mrope_interleaved", "true");
  }
}

LoadedModel load_qwen3_5(const io::Config& json, const io::Weights& w) {
  const io::Config text = json.at_or_self("text_config");
  refuse_other_forms(json, text);
  nn::DenseConfig c(text, {.max_positions = 32768, .num_kv_heads = 4, .head_dim = 256});
  if (!c.tie_word_embeddings) c.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  return {.lm = nn::make_gated_delta_decoder(text, c, {}, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_5", "qwen3_5_text"};
constexpr std::array<io::Rename, 7> kNames = {{
    {"model.language_model.*", "model.*"},
    {"language_model.model.*", "model.*"},
    {"language_model.lm_head.*", "lm_head.*"},
    {"model.visual.*", ""},
    {"vision_tower.*", ""},
    {"mtp.*", ""},
    {"language_model.mtp.*", ""},
}};

}  // namespace

extern const Family kQwen35;
const Family kQwen35 = {"qwen3_5", "Qwen 3.5", "hybrid_ssm", kTypes,
                        {},        kNames,     load_qwen3_5, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
