// PLaMo 2: blocks with a norm before and after each part, whose mixer is a state space of Mamba 2's
// kind with B, C and dt from the convolved input, or attention with normed queries and keys.
//
//   z, u of each head = in(x)       u = SiLU(conv(u))
//   B, C, dt = norms(bcdt(u))       out(SiLU(z) * ssd(u, softplus(dt_proj(dt) + bias), A, B, C, D))
//
// Layers outside full_attention_idx attend to a window.
//
// Paper: PLaMo 2 (arXiv:2509.04897).

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/recurrent.h"

namespace mlxcel::models {
namespace {

struct MambaSizes {
  int64_t hidden_size = 0, heads = 0, head_dim = 0, states = 0, taps = 0, dt_rank = 0;
  float norm_eps = 1e-6F;
  int64_t inner() const { return heads * head_dim; }
};

/// z of every head, then u of every head; the file has both of a head together.
std::array<nn::StackedLinear::Part, 2> gates_and_inputs(const MambaSizes& s, const io::Weights& w) {
  std::array<nn::StackedLinear::Part, 2> parts;
  for (int64_t i = 0; i < 2; ++i) {
    nn::StackedLinear::Part& p = parts[static_cast<size_t>(i)];
    p.weights = w.at("in_proj");
    p.out_features = s.inner();
    p.bias = nn::Bias::None;
    p.stored_rows = 2 * s.inner();
    for (int64_t h = 0; h < s.heads; ++h) {
      p.rows.push_back({(2 * h + i) * s.head_dim, s.head_dim});
    }
  }
  return parts;
}

class PlamoMixer final : public nn::Mixer {
 public:
  PlamoMixer(const MambaSizes& s, const io::Weights& w, int layer)
      : sizes_(s),
        layer_(layer),
        in_(gates_and_inputs(s, w), s.hidden_size, nn::Parallel::Column),
        bcdt_(w.at("bcdt_proj"), s.inner(), s.dt_rank + 2 * s.states, nn::Parallel::None,
              nn::Bias::None),
        dt_(w.at("dt_proj"), s.dt_rank, s.heads, nn::Parallel::None, nn::Bias::None),
        out_(w.at("out_proj"), s.inner(), s.hidden_size, nn::Parallel::Row, nn::Bias::None),
        conv_(w.at("conv1d"), {.channels = s.inner(), .taps = s.taps}, layer),
        dt_bias_(w.take_f32("dt_bias", Shape{s.heads})),
        rates_(nn::head_rates(w, s.heads)),
        skip_(w.take_f32("D", Shape{s.heads})),
        dt_gain_(w.take_f32("dt_norm_weight", Shape{s.dt_rank})),
        b_gain_(w.take_f32("B_norm_weight", Shape{s.states})),
        c_gain_(w.take_f32("C_norm_weight", Shape{s.states})) {}

  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    const int64_t n = sizes_.states;
    const std::vector<Tensor> zu = in_.heads(x, sizes_.inner());  // 2 x [T, 1, I]
    const Tensor z = zu[0].view({x.dim(0), sizes_.inner()});      // [T, I]
    const Tensor u = conv_(zu[1].view({x.dim(0), sizes_.inner()}), batch);
    const Tensor all = bcdt_(u);  // [T, 2N + R]
    const Tensor b = ops::rms_norm(all.slice(1, 0, n), b_gain_, sizes_.norm_eps);
    const Tensor c = ops::rms_norm(all.slice(1, n, 2 * n), c_gain_, sizes_.norm_eps);
    const Tensor dt = ops::rms_norm(all.slice(1, 2 * n, all.dim(1)), dt_gain_, sizes_.norm_eps);
    Tensor state = batch.caches->state(layer_, 1);
    const Tensor y = ops::ssd_scan(u, ops::softplus(dt_(dt), dt_bias_), rates_, b, c, skip_, state,
                                   nn::state_segments(batch));  // [T, I]
    return out_(ops::silu_mul(z, y));
  }

  int64_t weight_bytes() const override {
    return in_.weight_bytes() + bcdt_.weight_bytes() + dt_.weight_bytes() + out_.weight_bytes() +
           conv_.weight_bytes() + dt_bias_.bytes() + rates_.bytes() + skip_.bytes() +
           dt_gain_.bytes() + b_gain_.bytes() + c_gain_.bytes();
  }

 private:
  MambaSizes sizes_;
  int layer_;
  nn::StackedLinear in_;
  nn::Linear bcdt_, dt_, out_;
  nn::ShortConv conv_;
  Tensor dt_bias_, rates_, skip_, dt_gain_, b_gain_, c_gain_;
};

/// The four norms add different numbers to their stored gains.
class PlamoBlock final : public nn::Block {
 public:
  PlamoBlock(const nn::DenseConfig& c, const io::Weights& w, std::unique_ptr<nn::Mixer> mixer)
      : mixer_(std::move(mixer)),
        mlp_(nn::make_mlp({.hidden_size = c.hidden_size,
                           .intermediate_size = c.intermediate_size,
                           .bias = nn::Bias::None},
                          w.at("mlp"))) {
    const auto norm = [&](std::string_view name, float offset) {
      return nn::Norm(w.at(name), c.hidden_size, {.eps = c.norm_eps, .offset = offset});
    };
    norms_ = {norm("pre_mixer_norm", 1.0F), norm("post_mixer_norm", 1.0F / 5.0F),
              norm("pre_mlp_norm", 1.0F), norm("post_mlp_norm", 1.0F / std::pow(5.0F, 1.5F))};
  }

  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    const Tensor mixed = norms_[1]((*mixer_)(norms_[0](x), batch));
    const auto [a, h] = norms_[2].add(x, mixed);
    return ops::add(a, norms_[3]((*mlp_)(h, batch)));
  }

  int64_t weight_bytes() const override {
    int64_t total = mixer_->weight_bytes() + mlp_->weight_bytes();
    for (const nn::Norm& norm : norms_) total += norm.weight_bytes();
    return total;
  }

 private:
  std::unique_ptr<nn::Mixer> mixer_;
  std::unique_ptr<nn::FeedForward> mlp_;
  std::vector<nn::Norm> norms_;
};

/// Whether each layer attends: one in every mamba_step, in its middle.
std::vector<bool> attention_layers(const io::Config& json, int64_t num_layers) {
  std::vector<bool> attends(static_cast<size_t>(num_layers), !json.flag_or("mamba_enabled", true));
  if (attends[0]) return attends;
  const int64_t step = json.size_or("mamba_step", 2, 2, 4096);
  for (int64_t i = 0; i < num_layers; ++i) {
    attends[static_cast<size_t>(i)] =
        num_layers <= step / 2 ? i == num_layers - 1 : i % step == step / 2;
  }
  return attends;
}

LoadedModel load_plamo2(const io::Config& json, const io::Weights& w) {
  nn::DenseConfig c(json, {.max_positions = 2048, .num_kv_heads = 4});
  c.head_dim = json.size_or("hidden_size_per_head", 128, 1, 4096);
  const MambaSizes mamba{.hidden_size = c.hidden_size,
                         .heads = json.size_or("mamba_num_heads", 64, 1, 4096),
                         .head_dim = c.head_dim,
                         .states = json.size_or("mamba_d_state", 64, 1, 4096),
                         .taps = json.size_or("mamba_d_conv", 4, 2, 64),
                         .dt_rank = std::max<int64_t>(64, c.hidden_size / 16),
                         .norm_eps = c.norm_eps};
  const nn::RopeConfig rope = nn::RopeConfig::from(json, c.head_dim, c.max_positions);
  nn::GqaOptions full{.hidden_size = c.hidden_size,
                      .num_heads = c.num_heads,
                      .num_kv_heads = c.num_kv_heads,
                      .head_dim = c.head_dim,
                      .rope = nn::Rope(rope),
                      .qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::EachHead}};
  nn::GqaOptions local = full;
  local.window = nn::window_from(json, "attention_window_size", 2048);
  const std::vector<int64_t> unlimited = json.i64s("full_attention_idx");
  const auto attention = [&](int64_t layer) -> const nn::GqaOptions& {
    return std::ranges::find(unlimited, layer) != unlimited.end() ? full : local;
  };
  const std::vector<bool> attends = attention_layers(json, c.num_layers);
  std::vector<nn::CacheSpec> caches;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    caches.push_back(
        attends[static_cast<size_t>(i)]
            ? attention(i).cache()
            : nn::CacheSpec::recurrent({Shape{mamba.taps - 1, mamba.inner()},
                                        Shape{mamba.heads, mamba.states, mamba.head_dim}}));
  }
  return {.lm = nn::make_decoder({
              .spec = {.vocab_size = c.vocab_size,
                       .hidden_size = c.hidden_size,
                       .intermediate_size = c.intermediate_size,
                       .max_positions = rope.usable_positions(),
                       .caches = std::move(caches)},
              .model = w.at("model"),
              .lm_head = w.at("lm_head"),
              .norm = {.eps = c.norm_eps, .offset = 1.0F},
              .tie_word_embeddings = json.flag_or("tie_word_embeddings", true),
              .block = [&](const io::Weights& layer, int i) -> std::unique_ptr<nn::Block> {
                const io::Weights part = layer.at("mixer");
                std::unique_ptr<nn::Mixer> mixer;
                if (attends[static_cast<size_t>(i)]) {
                  mixer = std::make_unique<nn::GqaAttention>(attention(i), part, i);
                } else {
                  mixer = std::make_unique<PlamoMixer>(mamba, part, i);
                }
                return std::make_unique<PlamoBlock>(c, layer, std::move(mixer));
              },
          })};
}

constexpr std::array<std::string_view, 1> kTypes = {"plamo2"};
constexpr std::array<io::Rename, 3> kNames = {{
    {"model.layers.layers.*", "model.layers.*"},
    {"*.mixer.q_weight", "*.mixer.q_norm.weight"},
    {"*.mixer.k_weight", "*.mixer.k_norm.weight"},
}};

}  // namespace

extern const Family kPlamo2;
const Family kPlamo2 = {"plamo2", "PLaMo 2", "hybrid_ssm", kTypes,
                        {},       kNames,    load_plamo2,  PrefixSharing::Snapshots};

}  // namespace mlxcel::models
