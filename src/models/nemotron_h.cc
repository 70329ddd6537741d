// Nemotron-H and Nemotron 3: every layer is one part alone, a Mamba 2 mixer ("M"), attention
// without positions ("*"), an MLP with squared ReLU ("-") or a mixture of such MLPs ("E"), behind
// one norm.
//
// Paper: Nemotron-H (arXiv:2504.03624). The time step has the lower limit time_step_min in prompts
// and in generation alike.

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba2.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

/// One of M, *, - and E for every layer.
std::string layer_pattern(const io::Config& json) {
  std::string pattern = json.str_or("hybrid_override_pattern", "");
  for (const char* key : {"layers_block_type", "layer_types"}) {
    if (!pattern.empty() || !json.has(key)) continue;
    for (const Json& entry : json.json().find(key)->as_array()) {
      const std::string& type = entry.as_string();
      const bool mamba = type == "linear_attention" || type == "mamba";
      const bool attention = type == "full_attention" || type == "attention";
      pattern += mamba ? 'M' : attention ? '*' : type == "mlp" ? '-' : type == "moe" ? 'E' : '?';
      if (pattern.back() == '?') {
        throw Error(Code::Unsupported, fmt::format("{}: {}[{}] = \"{}\" is not supported",
                                                   json.source(), key, pattern.size() - 1, type));
      }
    }
  }
  const size_t other = pattern.find_first_not_of("M*-E");
  if (pattern.empty() || other != std::string::npos || pattern.size() > 4096) {
    throw Error(Code::Unsupported, fmt::format("{}: hybrid_override_pattern = \"{}\" is not "
                                               "supported",
                                               json.source(), pattern));
  }
  return pattern;
}

nn::Mamba2Options mamba_options(const io::Config& json, const nn::DenseConfig& c) {
  nn::Mamba2Options m;
  m.hidden_size = c.hidden_size;
  m.num_heads = json.size_or("mamba_num_heads", 128, 1, 4096);
  m.head_dim = json.size_or("mamba_head_dim", 64, 1, 4096);
  m.num_groups = json.size_or("mamba_n_groups", json.size_or("n_groups", 8, 1, 4096), 1, 4096);
  m.num_states = json.size_or("ssm_state_size", 128, 1, 4096);
  m.conv_taps = json.size_or("mamba_d_conv", json.size_or("conv_kernel", 4, 2, 64), 2, 64);
  m.conv_bias = nn::bias_from(json, "mamba_conv_bias", json.flag_or("use_conv_bias", true));
  m.in_bias = m.out_bias = nn::bias_from(json, "use_bias", false);
  m.norm_groups = m.num_groups;
  m.norm_eps = c.norm_eps;
  m.dt_low = json.f32_or("mamba_dt_min", json.f32_or("time_step_min", 0.001F));
  json.expect("mamba_hidden_act", "silu");
  nn::check_mamba2(json, m);
  return m;
}

nn::MoeOptions experts(const io::Config& json, const nn::DenseConfig& c) {
  json.expect("mlp_hidden_act", "relu2");
  if (json.has("moe_latent_size")) {
    throw Error(Code::Unsupported, fmt::format("{}: moe_latent_size = {} is not supported",
                                               json.source(), json.i64("moe_latent_size")));
  }
  nn::MoeOptions moe = nn::grouped_sigmoid_moe(json, c,
                                               {.num_experts_key = "n_routed_experts",
                                                .num_experts = 8,
                                                .top_k = 2,
                                                .intermediate_size = 7688},
                                               {});
  moe.activation.kind = nn::ExpertActivation::Kind::Relu2;
  moe.shared_intermediate_size =
      json.size_or("moe_shared_expert_intermediate_size", 7688, 1, 1 << 22);
  moe.expert_bias = nn::Bias::None;
  moe.shared_bias = nn::bias_from(json, "mlp_bias", false);
  return moe;
}

LoadedModel load_nemotron_h(const io::Config& json, const io::Weights& w) {
  const std::string pattern = layer_pattern(json);
  const nn::DenseConfig c(json, {.max_positions = 4096,
                                 .num_kv_heads = 8,
                                 .head_dim = json.size_or("attention_head_dim", 128, 1, 4096),
                                 .intermediate_size = 21504,
                                 .norm_eps = 1e-5F,
                                 .norm_eps_key = "layer_norm_epsilon"});
  if (static_cast<size_t>(c.num_layers) != pattern.size()) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: num_hidden_layers = {} for a pattern of {} layers", json.source(),
                            c.num_layers, pattern.size()));
  }
  const nn::Mamba2Options mamba = mamba_options(json, c);
  const nn::GqaOptions attention{.hidden_size = c.hidden_size,
                                 .num_heads = c.num_heads,
                                 .num_kv_heads = c.num_kv_heads,
                                 .head_dim = c.head_dim};
  const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                           .intermediate_size = c.intermediate_size,
                           .activation = nn::activation_from(json, "mlp_hidden_act", "relu2"),
                           .gated = false,
                           .bias = nn::bias_from(json, "mlp_bias", false)};

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = c.intermediate_size;
  o.max_positions = c.max_positions;
  for (const char kind : pattern) {
    o.caches.push_back(kind == 'M'   ? nn::CacheSpec::recurrent(mamba.states())
                       : kind == '*' ? attention.cache()
                                     : nn::CacheSpec{});
  }
  o.block = {.hidden_size = c.hidden_size,
             .norm = {.eps = c.norm_eps},
             .names = {.mixer_in = "norm", .ff_in = "norm"}};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::Mixer> {
    const char kind = pattern[static_cast<size_t>(index)];
    if (kind == 'M') return std::make_unique<nn::Mamba2Mixer>(mamba, layer.at("mixer"), index);
    if (kind != '*') return nullptr;
    return std::make_unique<nn::GqaAttention>(attention, layer.at("mixer"), index);
  };
  o.feed_forward = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::FeedForward> {
    const char kind = pattern[static_cast<size_t>(index)];
    if (kind == '-') return nn::make_mlp(mlp, layer.at("mixer"));
    if (kind != 'E') return nullptr;
    nn::MoeOptions moe = experts(json, c);
    // MLX names the two matrices of a stack fc1 and fc2.
    if (layer.has("mixer.switch_mlp")) moe.names = {.up = "fc1", .down = "fc2"};
    return nn::make_moe(moe, layer.at("mixer"));
  };
  json.expect("tie_word_embeddings", "false");  // the reference never ties
  o.tie_word_embeddings = false;
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"nemotron_h"};
constexpr std::array<io::Rename, 6> kNames = {{
    {"backbone.*", "model.*"},
    {"model.embedding.*", "model.embed_tokens.*"},
    {"model.embeddings.*", "model.embed_tokens.*"},
    {"model.norm_f.*", "model.norm.*"},
    {"mtp.*", ""},
    {"model.mtp.*", ""},
}};

}  // namespace

extern const Family kNemotronH;
const Family kNemotronH = {"nemotron_h", "Nemotron-H", "hybrid_ssm",    kTypes,
                           {},           kNames,       load_nemotron_h, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
