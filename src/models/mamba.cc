// Mamba and Falcon-Mamba: blocks of one selective state space mixer (nn/mamba.h) and nothing else.
// Falcon-Mamba norms dt, B and C without gains before the scan.
//
// Papers: Mamba (arXiv:2312.00752), Falcon Mamba (arXiv:2410.05355).

#include <array>

#include "models/family.h"
#include "nn/dense_config.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba.h"

namespace mlxcel::models {
namespace {

LoadedModel load_mamba(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  nn::MambaOptions m;
  m.hidden_size = json.size("hidden_size", 1, nn::kMaxInnerSize);
  m.inner_size = json.size_or("intermediate_size", json.size_or("expand", 2, 1, 64) * m.hidden_size,
                              1, nn::kMaxInnerSize);
  m.num_states = json.size_or("state_size", 16, 1, 4096);
  m.conv_taps = json.size_or("conv_kernel", 4, 2, 64);
  const Json* rank = json.json().find("time_step_rank");
  const bool automatic = rank == nullptr || rank->is_null() || rank->is_string();
  if (rank != nullptr && rank->is_string()) json.expect("time_step_rank", "auto");
  m.dt_rank = automatic ? (m.hidden_size + 15) / 16 : json.size("time_step_rank", 1, 1 << 16);
  m.proj_bias = nn::bias_from(json, "use_bias", false);
  m.conv_bias = nn::bias_from(json, "use_conv_bias", true);
  if (lower_case(json.str("model_type")) == "falcon_mamba") {
    m.inner_norm = nn::NormOptions{.eps = json.f32_or("mixer_rms_eps", 1e-6F), .has_gain = false};
  }

  nn::HybridOptions o;
  o.vocab_size = json.size("vocab_size", 1, 1 << 24);
  o.hidden_size = m.hidden_size;
  o.intermediate_size = m.inner_size;
  o.max_positions = json.size_or("max_position_embeddings", nn::kNoPositionLimit);
  o.caches.assign(static_cast<size_t>(json.size("num_hidden_layers", 1, 4096)), m.cache());
  o.block = {.hidden_size = m.hidden_size,
             .norm = {.eps = json.f32_or("layer_norm_epsilon", 1e-5F)},
             .names = {.mixer_in = "norm"}};
  o.mixer = [&m](const io::Weights& layer, int index) {
    return std::make_unique<nn::MambaMixer>(m, layer.at("mixer"), index);
  };
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", true);
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"mamba", "falcon_mamba"};
constexpr std::array<io::Rename, 4> kNames = {{
    {"backbone.embedding.*", "model.embed_tokens.*"},
    {"backbone.embeddings.*", "model.embed_tokens.*"},
    {"backbone.norm_f.*", "model.norm.*"},
    {"backbone.layers.*", "model.layers.*"},
}};

}  // namespace

extern const Family kMamba;
const Family kMamba = {"mamba",    "Mamba, Falcon-Mamba",   "hybrid_ssm", kTypes, {}, kNames,
                       load_mamba, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
