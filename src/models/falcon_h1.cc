// Falcon-H1: a Mamba 2 mixer and attention side by side in every block, then an MLP, with muP
// multipliers at their inputs and outputs:
//
//   h = norm(x)
//   x = x + ssm_out * Mamba(h) + attn_out * Attn(attn_in * h)
//   x = x + mlp[1] * down(SiLU(mlp[0] * gate(norm(x))) * up(norm(x)))
//
// MLX conversions have the multipliers folded into their weights; they are known by the layout of
// the convolution, [C, K, 1] instead of [C, 1, K].
//
// Paper: Falcon-H1 (arXiv:2507.22448).

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/mamba2.h"

namespace mlxcel::models {
namespace {

std::vector<float> multipliers(const io::Config& json, std::string_view key, size_t count) {
  std::vector<float> out;
  if (!json.has(key)) return std::vector<float>(count, 1.0F);
  for (const Json& v : json.json().find(key)->as_array()) {
    out.push_back(static_cast<float>(v.as_double()));
  }
  if (out.size() != count) {
    throw Error(Code::InvalidArgument, fmt::format("{}: {} has {} entries, expected {}",
                                                   json.source(), key, out.size(), count));
  }
  return out;
}

Tensor scaled(const Tensor& x, float factor) { return factor == 1.0F ? x : ops::scale(x, factor); }

struct Multipliers {
  float embedding = 1, lm_head = 1, key = 1, attention_in = 1, attention_out = 1, ssm_in = 1,
        ssm_out = 1;
  std::vector<float> mlp = {1, 1}, ssm = {1, 1, 1, 1, 1};

  static Multipliers from(const io::Config& json) {
    return {.embedding = json.f32_or("embedding_multiplier", 1.0F),
            .lm_head = json.f32_or("lm_head_multiplier", 1.0F),
            .key = json.f32_or("key_multiplier", 1.0F),
            .attention_in = json.f32_or("attention_in_multiplier", 1.0F),
            .attention_out = json.f32_or("attention_out_multiplier", 1.0F),
            .ssm_in = json.f32_or("ssm_in_multiplier", 1.0F),
            .ssm_out = json.f32_or("ssm_out_multiplier", 1.0F),
            .mlp = multipliers(json, "mlp_multipliers", 2),
            .ssm = multipliers(json, "ssm_multipliers", 5)};
  }
};

class ParallelMixer final : public nn::Mixer {
 public:
  ParallelMixer(const nn::Mamba2Options& mamba, const nn::GqaOptions& attention,
                const Multipliers& m, const io::Weights& layer, int index)
      : mamba_(mamba, layer.at("mamba"), index),
        attention_(attention, layer.at("self_attn"), index),
        multipliers_(m) {}

  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    const Tensor mixed = mamba_(scaled(x, multipliers_.ssm_in), batch);
    const Tensor attended = attention_(scaled(x, multipliers_.attention_in), batch);
    return ops::add(scaled(mixed, multipliers_.ssm_out),
                    scaled(attended, multipliers_.attention_out));
  }
  int64_t weight_bytes() const override {
    return mamba_.weight_bytes() + attention_.weight_bytes();
  }

 private:
  nn::Mamba2Mixer mamba_;
  nn::GqaAttention attention_;
  Multipliers multipliers_;
};

class ScaledMlp final : public nn::FeedForward {
 public:
  ScaledMlp(const nn::DenseConfig& c, nn::Bias bias, const Multipliers& m, const io::Weights& w)
      : gate_(w.at("gate_proj"), c.hidden_size, c.intermediate_size, nn::Parallel::Column, bias),
        up_(w.at("up_proj"), c.hidden_size, c.intermediate_size, nn::Parallel::Column, bias),
        down_(w.at("down_proj"), c.intermediate_size, c.hidden_size, nn::Parallel::Row, bias),
        gate_factor_(m.mlp[0]),
        down_factor_(m.mlp[1]) {}

  Tensor operator()(const Tensor& x, const nn::Batch&) const override {  // [T, D] -> [T, D]
    return scaled(down_(ops::silu_mul(scaled(gate_(x), gate_factor_), up_(x))), down_factor_);
  }
  int64_t weight_bytes() const override {
    return gate_.weight_bytes() + up_.weight_bytes() + down_.weight_bytes();
  }

 private:
  nn::Linear gate_, up_, down_;
  float gate_factor_, down_factor_;
};

LoadedModel load_falcon_h1(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  const nn::DenseConfig c(json, {.max_positions = 8192, .num_kv_heads = 8, .norm_eps = 1e-5F});
  const auto conv = w.at("model.layers.0.mamba.conv1d").dims("weight");
  const bool folded = conv.size() == 3 && conv[2] == 1 && conv[1] > 1;
  const Multipliers m = folded ? Multipliers{} : Multipliers::from(json);

  nn::Mamba2Options mamba = nn::mamba2_from(json, c.hidden_size);
  mamba.multipliers = m.ssm;
  mamba.out_bias = nn::bias_from(json, "projectors_bias", false);
  mamba.norm_eps = c.norm_eps;
  mamba.norm_groups = mamba.num_groups;
  using Place = nn::Mamba2Options::NormPlace;
  const bool before = json.flag_or("mamba_norm_before_gate", true);
  mamba.norm_place = !json.flag_or("mamba_rms_norm", false) ? Place::None
                     : before                               ? Place::BeforeGate
                                                            : Place::AfterGate;
  nn::check_mamba2(json, mamba);

  const nn::RopeConfig rope = nn::whole_head_rope(json, c);
  nn::GqaOptions attention{.hidden_size = c.hidden_size,
                           .num_heads = c.num_heads,
                           .num_kv_heads = c.num_kv_heads,
                           .head_dim = c.head_dim,
                           .rope = nn::Rope(rope),
                           .scale = m.key / std::sqrt(static_cast<float>(c.head_dim))};
  attention.qkv_bias = attention.o_bias = nn::bias_from(json, "attention_bias", false);
  nn::CacheSpec cache = attention.cache();
  cache.state = mamba.states();

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = c.intermediate_size;
  o.max_positions = rope.usable_positions();
  o.caches.assign(static_cast<size_t>(c.num_layers), cache);
  o.block = {.hidden_size = c.hidden_size,
             .norm = {.eps = c.norm_eps},
             .names = {.mixer_in = "input_layernorm", .ff_in = "pre_ff_layernorm"}};
  o.mixer = [&](const io::Weights& layer, int index) {
    return std::make_unique<ParallelMixer>(mamba, attention, m, layer, index);
  };
  const nn::Bias mlp_bias = nn::bias_from(json, "mlp_bias", false);
  o.feed_forward = [&](const io::Weights& layer, int) {
    return std::make_unique<ScaledMlp>(c, mlp_bias, m, layer.at("feed_forward"));
  };
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", false);
  o.embed_scale = m.embedding;
  o.logit_scale = m.lm_head;
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"falcon_h1"};
constexpr std::array<io::Rename, 1> kNames = {{{"model.final_layernorm.*", "model.norm.*"}}};

}  // namespace

extern const Family kFalconH1;
const Family kFalconH1 = {"falcon_h1", "Falcon-H1", "hybrid_ssm",   kTypes,
                          {},          kNames,      load_falcon_h1, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
