// Kimi Linear: three layers of Kimi Delta Attention (nn/kimi_delta.h) to one of latent attention
// without positions, over a mixture of experts in all but the first layers.
//
// Latent attention keeps one vector for each token, c = RMSNorm(kv_a(x)) and a shared key part p:
//
//   score(t, s) = q_nope(t) K c(s) + q_pe(t) p(s)        out = O (V sum of softmax(score) c)
//
// with the matrices K and V of every head, the two halves of kv_b. Queries are multiplied by K and
// results by V, so that neither keys nor values are ever expanded.
//
// Paper: Kimi Linear (arXiv:2510.26692).

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/attention.h"
#include "nn/hybrid_decoder.h"
#include "nn/kimi_delta.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

struct LatentSizes {
  int64_t hidden_size = 0, num_heads = 0, rank = 0, nope = 0, pe = 0, value = 0;
  nn::CacheSpec cache() const {
    nn::CacheSpec spec;
    spec.kind = nn::CacheSpec::Kind::Latent;
    spec.num_kv_heads = 1;
    spec.k_dim = static_cast<int32_t>(rank + pe);
    return spec;
  }
};

/// A stored matrix [rows, cols] in f32.
std::vector<float> values_of(const io::Weights& w, int64_t rows, int64_t cols) {
  std::vector<float> out(static_cast<size_t>(rows * cols));
  w.take_matrix(rows, cols)->read_f32(0, rows, out.data());
  return out;
}

class LatentMixer final : public nn::Mixer {
 public:
  LatentMixer(const LatentSizes& s, const io::Weights& w, int layer)
      : sizes_(s),
        layer_(layer),
        q_(w.at("q_proj"), s.hidden_size, s.num_heads * (s.nope + s.pe), nn::Parallel::Column,
           nn::Bias::None),
        kv_(w.at("kv_a_proj_with_mqa"), s.hidden_size, s.rank + s.pe, nn::Parallel::None,
            nn::Bias::None),
        kv_norm_(w.at("kv_a_layernorm"), s.rank, {.eps = 1e-6F}),
        out_(w.at("o_proj"), s.num_heads * s.value, s.hidden_size, nn::Parallel::Row,
             nn::Bias::None),
        keys_(Tensor::zeros(Shape{s.num_heads, s.nope + s.pe, s.rank + s.pe}, DType::F32)),
        values_(Tensor::zeros(Shape{s.num_heads, s.rank, s.value}, DType::F32)) {
    read_matrices(w);
  }

  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    const LatentSizes& s = sizes_;
    const Tensor latent = kv_(x);  // [T, R + P]
    const Tensor kept = ops::join_columns(kv_norm_(latent.slice(1, 0, s.rank)),
                                          latent.slice(1, s.rank, s.rank + s.pe));  // [T, R + P]
    const Tensor q = ops::block_linear(q_(x), keys_, {});  // [T, H * (R + P)]
    const float scale = 1.0F / std::sqrt(static_cast<float>(s.nope + s.pe));
    const Tensor o = nn::latent_attention(
        batch, layer_, q.view({x.dim(0), s.num_heads, s.rank + s.pe}),
        kept.view({x.dim(0), 1, s.rank + s.pe}), s.rank, {.scale = scale});  // [T, H, R]
    return out_(ops::block_linear(o.view({x.dim(0), s.num_heads * s.rank}), values_, {}));
  }

  int64_t weight_bytes() const override {
    return q_.weight_bytes() + kv_.weight_bytes() + kv_norm_.weight_bytes() + out_.weight_bytes() +
           keys_.bytes() + values_.bytes();
  }

 private:
  /// K with the identity for the shared part, and V, as [H, in, out]: from kv_b_proj [H * (N + V),
  /// R], or from MLX's embed_q [H, R, N] and unembed_out [H, V, R].
  void read_matrices(const io::Weights& w) {
    const LatentSizes& s = sizes_;
    const bool split = w.has("embed_q");
    const std::vector<float> k =
        split ? values_of(w.at("embed_q"), s.num_heads * s.rank, s.nope)
              : values_of(w.at("kv_b_proj"), s.num_heads * (s.nope + s.value), s.rank);
    const std::vector<float> v = split
                                     ? values_of(w.at("unembed_out"), s.num_heads * s.value, s.rank)
                                     : std::vector<float>();
    auto keys = keys_.host_mut<float>();
    auto values = values_.host_mut<float>();
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    for (int64_t h = 0; h < s.num_heads; ++h) {
      const int64_t row = h * (s.nope + s.value);
      for (int64_t r = 0; r < s.rank; ++r) {
        for (int64_t n = 0; n < s.nope; ++n) {
          keys[at((h * (s.nope + s.pe) + n) * (s.rank + s.pe) + r)] =
              split ? k[at((h * s.rank + r) * s.nope + n)] : k[at((row + n) * s.rank + r)];
        }
        for (int64_t j = 0; j < s.value; ++j) {
          values[at((h * s.rank + r) * s.value + j)] = split
                                                           ? v[at((h * s.value + j) * s.rank + r)]
                                                           : k[at((row + s.nope + j) * s.rank + r)];
        }
      }
      for (int64_t p = 0; p < s.pe; ++p) {
        keys[at((h * (s.nope + s.pe) + s.nope + p) * (s.rank + s.pe) + s.rank + p)] = 1.0F;
      }
    }
  }

  LatentSizes sizes_;
  int layer_;
  nn::Linear q_, kv_;
  nn::Norm kv_norm_;
  nn::Linear out_;
  Tensor keys_, values_;
};

/// Layers of latent attention, from the list of their numbers (the first is 1).
std::vector<bool> latent_layers(const io::Config& linear, int64_t num_layers) {
  std::vector<bool> latent(static_cast<size_t>(num_layers), false);
  std::vector<bool> named = latent;
  for (const char* key : {"full_attn_layers", "kda_layers"}) {
    for (const int64_t i : linear.i64s(key)) {
      if (i < 1 || i > num_layers) {
        throw Error(Code::InvalidArgument,
                    fmt::format("{}: linear_attn_config.{} names layer {} of {}", linear.source(),
                                key, i, num_layers));
      }
      named[static_cast<size_t>(i - 1)] = true;
      latent[static_cast<size_t>(i - 1)] = std::string_view(key) == "full_attn_layers";
    }
  }
  for (size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) {
      throw Error(
          Code::InvalidArgument,
          fmt::format("{}: linear_attn_config names no kind for layer {}", linear.source(), i + 1));
    }
  }
  return latent;
}

nn::MoeOptions experts(const io::Config& json, const nn::DenseConfig& c) {
  json.expect("moe_router_activation_func", "sigmoid");
  nn::MoeOptions moe = nn::moe_options(json, c,
                                       {.top_k_key = "num_experts_per_token",
                                        .num_experts = 256,
                                        .top_k = 8,
                                        .intermediate_size = 1024});
  ops::RouterOptions& r = moe.router;
  r.score = ops::RouterOptions::Score::Sigmoid;
  r.num_groups = static_cast<int32_t>(json.size_or("num_expert_group", 1, 1, moe.num_experts));
  r.top_groups = static_cast<int32_t>(json.size_or("topk_group", 1, 1, r.num_groups));
  if (moe.num_experts % r.num_groups != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: num_expert_group = {} does not divide num_experts = {}",
                            json.source(), r.num_groups, moe.num_experts));
  }
  r.normalize = json.flag_or("moe_renormalize", true);
  r.norm_eps = 1e-20F;
  r.scale = nn::number_from(json, "routed_scaling_factor", 2.446F);
  moe.shared_intermediate_size =
      json.size_or("num_shared_experts", 1, 0, 1024) * moe.intermediate_size;
  return moe;
}

LoadedModel load_kimi_linear(const io::Config& json, const io::Weights& w) {
  json.expect("hidden_act", "silu");
  json.expect("moe_layer_freq", "1");
  json.expect("attention_bias", "false");
  json.expect("mla_use_nope", "true");
  if (json.has("q_lora_rank")) {
    throw Error(Code::Unsupported, fmt::format("{}: q_lora_rank = {} is not supported",
                                               json.source(), json.i64("q_lora_rank")));
  }
  const nn::DenseConfig c(json, {.max_positions = 1048576,
                                 .intermediate_size = 9216,
                                 .norm_eps = 1e-5F,
                                 .max_positions_key = "model_max_length"});
  const io::Config linear = json.at("linear_attn_config");
  const std::vector<bool> latent = latent_layers(linear, c.num_layers);
  const nn::KimiDeltaOptions delta{.hidden_size = c.hidden_size,
                                   .num_heads = linear.size("num_heads", 1, 4096),
                                   .head_dim = linear.size("head_dim", 1, 4096),
                                   .conv_taps = linear.size_or("short_conv_kernel_size", 4, 2, 64),
                                   .norm_eps = c.norm_eps};
  const LatentSizes sizes{.hidden_size = c.hidden_size,
                          .num_heads = c.num_heads,
                          .rank = json.size_or("kv_lora_rank", 512, 1, 1 << 16),
                          .nope = json.size_or("qk_nope_head_dim", 128, 1, 4096),
                          .pe = json.size_or("qk_rope_head_dim", 64, 0, 4096),
                          .value = json.size_or("v_head_dim", 128, 1, 4096)};
  const int64_t dense_layers = json.size_or("first_k_dense_replace", 1, 0, 4096);
  const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                           .intermediate_size = c.intermediate_size,
                           .bias = nn::Bias::None};
  const nn::MoeOptions moe = experts(json, c);

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = c.intermediate_size;
  o.max_positions = c.max_positions;
  for (const bool l : latent) o.caches.push_back(l ? sizes.cache() : delta.cache());
  o.block = {.hidden_size = c.hidden_size, .norm = {.eps = c.norm_eps}};
  o.mixer = [&](const io::Weights& layer, int i) -> std::unique_ptr<nn::Mixer> {
    const io::Weights part = layer.at("self_attn");
    if (latent[static_cast<size_t>(i)]) return std::make_unique<LatentMixer>(sizes, part, i);
    return std::make_unique<nn::KimiDeltaMixer>(delta, part, i);
  };
  o.feed_forward = [&](const io::Weights& layer, int i) {
    if (i < dense_layers) return nn::make_mlp(mlp, layer.at("mlp"));
    nn::MoeOptions here = moe;
    const bool published = layer.has("block_sparse_moe");
    here.selection_bias = published ? "gate.e_score_correction_bias" : "e_score_correction_bias";
    if (published) here.names = {.gate = "w1", .up = "w3", .down = "w2"};
    return nn::make_moe(here, layer.at(published ? "block_sparse_moe" : "mlp"));
  };
  json.expect("tie_word_embeddings", "false");  // the reference never ties
  o.tie_word_embeddings = false;
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"kimi_linear"};

}  // namespace

extern const Family kKimiLinear;
const Family kKimiLinear = {
    "kimi_linear",    "Kimi Linear",           "linear_attention", kTypes, {}, {},
    load_kimi_linear, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
