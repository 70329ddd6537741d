// Mamba 2 and Codestral Mamba: blocks of one state space duality mixer (nn/mamba2.h) whose output
// is normed in the groups that share B and C.
//
// Paper: Transformers are SSMs (arXiv:2405.21060).

#include <array>

#include "models/family.h"
#include "nn/dense_config.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba2.h"

namespace mlxcel::models {
namespace {

LoadedModel load_mamba2(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  nn::Mamba2Options m;
  m.hidden_size = json.size("hidden_size", 1, nn::kMaxInnerSize);
  m.num_heads = json.size_or("num_heads", 128, 1, 4096);
  m.head_dim = json.size_or("head_dim", 64, 1, 4096);
  m.num_groups = json.size_or("n_groups", 8, 1, 4096);
  m.num_states = json.size_or("state_size", 128, 1, 4096);
  m.conv_taps = json.size_or("conv_kernel", 4, 2, 64);
  m.in_bias = m.out_bias = nn::bias_from(json, "use_bias", false);
  m.conv_bias = nn::bias_from(json, "use_conv_bias", true);
  m.norm_groups = m.num_groups;
  m.norm_eps = json.f32_or("layer_norm_epsilon", 1e-5F);
  nn::read_dt_limits(json, "time_step_limit", m);
  nn::check_mamba2(json, m);

  nn::HybridOptions o;
  o.vocab_size = json.size("vocab_size", 1, 1 << 24);
  o.hidden_size = m.hidden_size;
  o.intermediate_size = m.inner_size();
  o.max_positions = json.size_or("max_position_embeddings", nn::kNoPositionLimit);
  o.caches.assign(static_cast<size_t>(json.size("num_hidden_layers", 1, 4096)),
                  nn::CacheSpec::recurrent(m.states()));
  o.block = {
      .hidden_size = m.hidden_size, .norm = {.eps = m.norm_eps}, .names = {.mixer_in = "norm"}};
  o.mixer = [&m](const io::Weights& layer, int index) {
    return std::make_unique<nn::Mamba2Mixer>(m, layer.at("mixer"), index);
  };
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"mamba2"};
constexpr std::array<io::Rename, 4> kNames = {{
    {"backbone.embedding.*", "model.embed_tokens.*"},
    {"backbone.embeddings.*", "model.embed_tokens.*"},
    {"backbone.norm_f.*", "model.norm.*"},
    {"backbone.layers.*", "model.layers.*"},
}};

}  // namespace

extern const Family kMamba2;
const Family kMamba2 = {"mamba2", "Mamba 2", "hybrid_ssm", kTypes,
                        {},       kNames,    load_mamba2,  PrefixSharing::Snapshots};

}  // namespace mlxcel::models
