// Jamba: pre-norm blocks with a Mamba mixer whose dt, B and C are normed, and attention without
// positions in every few layers, each followed by an MLP or, in every few layers, a mixture of
// experts whose weights are the softmax over all of them, not made to sum to one.
//
// Paper: Jamba (arXiv:2403.19887).

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

/// A layer i with i mod period = offset.
struct Every {
  int64_t period = 1, offset = 0;
  bool operator()(int64_t layer) const { return layer % period == offset; }

  static Every from(const io::Config& json, std::string_view name, int64_t period, int64_t offset) {
    Every e;
    e.period = json.size_or(fmt::format("{}_layer_period", name), period, 1, 4096);
    e.offset = json.size_or(fmt::format("{}_layer_offset", name), offset, 0, 4096);
    if (e.offset >= e.period) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{}: {}_layer_offset = {} must be below {}_layer_period = {}",
                              json.source(), name, e.offset, name, e.period));
    }
    return e;
  }
};

nn::MambaOptions mamba_options(const io::Config& json, const nn::DenseConfig& c) {
  nn::MambaOptions m;
  m.hidden_size = c.hidden_size;
  m.inner_size = json.size_or("mamba_expand", 2, 1, 64) * c.hidden_size;
  m.num_states = json.size_or("mamba_d_state", 16, 1, 4096);
  m.conv_taps = json.size_or("mamba_d_conv", 4, 2, 64);
  const Json* rank = json.json().find("mamba_dt_rank");
  const bool automatic = rank == nullptr || rank->is_null() || rank->is_string();
  if (rank != nullptr && rank->is_string()) json.expect("mamba_dt_rank", "auto");
  m.dt_rank = automatic ? (c.hidden_size + 15) / 16 : json.size("mamba_dt_rank", 1, 1 << 16);
  m.proj_bias = nn::bias_from(json, "mamba_proj_bias", false);
  m.conv_bias = nn::bias_from(json, "mamba_conv_bias", true);
  m.inner_norm = nn::NormOptions{.eps = c.norm_eps};
  return m;
}

LoadedModel load_jamba(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  const nn::DenseConfig c(json, {.max_positions = 262144, .num_kv_heads = 8});
  const nn::MambaOptions mamba = mamba_options(json, c);
  const Every attends = Every::from(json, "attn", 8, 4);
  const Every has_experts = Every::from(json, "expert", 2, 1);
  const int64_t experts = json.size_or("num_experts", 16, 1, 4096);
  const nn::GqaOptions attention{.hidden_size = c.hidden_size,
                                 .num_heads = c.num_heads,
                                 .num_kv_heads = c.num_kv_heads,
                                 .head_dim = c.head_dim};
  const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                           .intermediate_size = c.intermediate_size,
                           .bias = nn::Bias::None};
  std::vector<bool> sparse;
  for (int64_t i = 0; i < c.num_layers; ++i) sparse.push_back(experts > 1 && has_experts(i));
  nn::MoeOptions moe;
  if (experts > 1) {
    moe = nn::moe_options(
        json, c, {.intermediate_size_key = "intermediate_size", .num_experts = 16, .top_k = 2});
    moe.router.normalize = false;
    moe.router_name = "router";
  }

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = c.intermediate_size;
  o.max_positions = c.max_positions;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    o.caches.push_back(attends(i) ? attention.cache() : mamba.cache());
  }
  o.block = {.hidden_size = c.hidden_size,
             .norm = {.eps = c.norm_eps},
             .names = {.mixer_in = "input_layernorm", .ff_in = "pre_ff_layernorm"}};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::Mixer> {
    if (attends(index)) {
      return std::make_unique<nn::GqaAttention>(attention, layer.at("self_attn"), index);
    }
    return std::make_unique<nn::MambaMixer>(mamba, layer.at("mamba"), index);
  };
  o.feed_forward = nn::moe_layers(sparse, moe, mlp, "feed_forward");
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"jamba"};
constexpr std::array<io::Rename, 1> kNames = {{{"model.final_layernorm.*", "model.norm.*"}}};

}  // namespace

extern const Family kJamba;
const Family kJamba = {"jamba", "Jamba", "hybrid_ssm", kTypes,
                       {},      kNames,  load_jamba,   PrefixSharing::Snapshots};

}  // namespace mlxcel::models
