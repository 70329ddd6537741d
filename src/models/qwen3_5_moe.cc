// Qwen 3.5 / 3.6 with experts: the decoder of qwen3_5.cc whose layers all route to experts as
// Qwen3-Next's do, with weights that sum to one. The experts' matrices are stored together.
//
// Described at https://qwen.ai/blog.

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/gated_delta_decoder.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen3_5_moe(const io::Config& json, const io::Weights& w) {
  const io::Config text = json.at_or_self("text_config");
  const Json* only = json.json().find("language_model_only");
  if (only != nullptr && !only->is_bool()) {
    throw Error(Code::Unsupported, fmt::format("{}: language_model_only = {} is not supported",
                                               json.source(), only->dump()));
  }
  text.expect("output_gate_type", "swish");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (text.has(key)) text.at(key).expect("mrope_interleaved", "true");
  }
  nn::DenseConfig c(text, {.max_positions = 32768,
                           .num_kv_heads = 2,
                           .head_dim = 256,
                           .intermediate_size = 512,
                           .intermediate_size_key = "moe_intermediate_size"});
  if (!c.tie_word_embeddings) c.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  nn::MoeOptions moe =
      nn::moe_options(text, c, {.num_experts = 256, .top_k = 8, .intermediate_size = 512});
  moe.router.normalize = true;
  moe.shared_intermediate_size = text.size_or("shared_expert_intermediate_size", 512, 1, 1 << 22);
  moe.shared_name = "shared_expert";
  moe.shared_gate = "shared_expert_gate";
  const std::vector<bool> sparse(static_cast<size_t>(c.num_layers), true);
  return {.lm = nn::make_gated_delta_decoder(text, c, nn::moe_layers(sparse, moe, {}), w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_5_moe", "qwen3_5_moe_text"};
constexpr std::array<io::Rename, 9> kNames = {{
    {"model.language_model.*", "model.*"},
    {"language_model.model.*", "model.*"},
    {"language_model.lm_head.*", "lm_head.*"},
    {"model.visual.*", ""},
    {"vision_tower.*", ""},
    {"mtp.*", ""},
    {"language_model.mtp.*", ""},
    {"*.experts.gate_up_proj", "*.experts.gate_up_proj.weight"},
    {"*.experts.down_proj", "*.experts.down_proj.weight"},
}};

}  // namespace

extern const Family kQwen35Moe;
const Family kQwen35Moe = {
    "qwen3_5_moe",    "Qwen 3.5 / 3.6 MoE",    "hybrid_ssm", kTypes, {}, kNames,
    load_qwen3_5_moe, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
