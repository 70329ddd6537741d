// LFM2 and LFM2.5: pre-norm blocks whose mixer is a gated short convolution (nn/gated_conv.h) in
// most layers and grouped-query attention, with normed queries and keys, in the others.
//
// Paper: LFM2 (arXiv:2511.23404).

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/gated_conv.h"
#include "nn/hybrid_decoder.h"

namespace mlxcel::models {
namespace {

/// Whether each layer attends: from layer_types, else full_attn_idxs, else all do.
std::vector<bool> attention_layers(const io::Config& json, int64_t num_layers) {
  constexpr std::array<std::string_view, 2> kKinds = {"conv", "full_attention"};
  const auto kinds = nn::layer_kinds(json, "layer_types", num_layers, kKinds);
  std::vector<bool> attends;
  for (const std::string& kind : kinds) attends.push_back(kind == "full_attention");
  if (!attends.empty()) return attends;
  attends.assign(static_cast<size_t>(num_layers), !json.has("full_attn_idxs"));
  for (const int64_t i : json.i64s("full_attn_idxs")) {
    if (i < 0 || i >= num_layers) {
      throw Error(Code::InvalidArgument, fmt::format("{}: full_attn_idxs names layer {} of {}",
                                                     json.source(), i, num_layers));
    }
    attends[static_cast<size_t>(i)] = true;
  }
  return attends;
}

/// The width of the MLP: two thirds of the given one, times a factor, rounded up.
int64_t mlp_width(const io::Config& json, int64_t intermediate_size) {
  int64_t width = json.size_or("block_ff_dim", intermediate_size, 1, 1 << 22);
  if (!json.flag_or("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  const double times = json.f64_or("block_ffn_dim_multiplier", 1.0);
  const int64_t multiple = json.size_or("block_multiple_of", 256, 1, 1 << 20);
  if (!(times > 0.0) || times > 64.0) {
    throw Error(Code::InvalidArgument, fmt::format("{}: block_ffn_dim_multiplier = {} must be in "
                                                   "(0, 64]",
                                                   json.source(), times));
  }
  width = static_cast<int64_t>(times * static_cast<double>(width));
  return (width + multiple - 1) / multiple * multiple;
}

LoadedModel load_lfm2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 128000,
                                 .num_kv_heads = 8,
                                 .intermediate_size = 12288,
                                 .norm_eps = 1e-5F,
                                 .norm_eps_key = "norm_eps"});
  const nn::NormOptions norm{.eps = c.norm_eps};
  const nn::RopeConfig rope = nn::RopeConfig::from(json, c.head_dim, c.max_positions,
                                                   "full_attention", {.theta = 1000000.0});
  const nn::GqaOptions attention{
      .hidden_size = c.hidden_size,
      .num_heads = c.num_heads,
      .num_kv_heads = c.num_kv_heads,
      .head_dim = c.head_dim,
      .rope = nn::Rope(rope),
      .qk_norm = nn::QkNorm{.norm = norm, .q = "q_layernorm", .k = "k_layernorm"},
      .o_name = "out_proj"};
  const nn::GatedConvOptions conv{.hidden_size = c.hidden_size,
                                  .taps = json.size_or("conv_L_cache", 3, 2, 64),
                                  .bias = nn::bias_from(json, "conv_bias", false)};
  const std::vector<bool> attends = attention_layers(json, c.num_layers);
  const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                           .intermediate_size = mlp_width(json, c.intermediate_size),
                           .bias = nn::Bias::None,
                           .gate = "w1",
                           .up = "w3",
                           .down = "w2"};

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = mlp.intermediate_size;
  o.max_positions = rope.usable_positions();
  for (const bool a : attends) o.caches.push_back(a ? attention.cache() : conv.cache());
  o.block = {.hidden_size = c.hidden_size,
             .norm = norm,
             .names = {.mixer_in = "operator_norm", .ff_in = "ffn_norm"}};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::Mixer> {
    if (attends[static_cast<size_t>(index)]) {
      return std::make_unique<nn::GqaAttention>(attention, layer.at("self_attn"), index);
    }
    return std::make_unique<nn::GatedConvMixer>(conv, layer.at("conv"), index);
  };
  o.feed_forward = [&](const io::Weights& layer, int) {
    return nn::make_mlp(mlp, layer.at("feed_forward"));
  };
  o.tie_word_embeddings = json.flag_or("tie_embedding", json.flag_or("tie_word_embeddings", true));
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"lfm2"};
constexpr std::array<io::Rename, 1> kNames = {{{"model.embedding_norm.*", "model.norm.*"}}};

}  // namespace

extern const Family kLfm2;
const Family kLfm2 = {"lfm2", "LFM2 / 2.5", "hybrid_ssm", kTypes,
                      {},     kNames,       load_lfm2,    PrefixSharing::Snapshots};

}  // namespace mlxcel::models
