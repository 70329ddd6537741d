#include "nn/latent_attention.h"

#include <fmt/core.h>

#include <cmath>
#include <vector>

#include "base/error.h"
#include "nn/attention.h"
#include "ops/recurrent.h"
#include "tensor/matrix_views.h"

namespace mlxcel::nn {
namespace {

constexpr Device kDevice{};
constexpr float kLatentEps = 1e-6F;  // of the norms of latents, whatever rms_norm_eps says

using Source = std::shared_ptr<const MatrixSource>;

std::shared_ptr<const ops::PackedExperts> pack(const std::vector<Source>& matrices) {
  std::vector<ops::ExpertSources> heads;
  for (const Source& m : matrices) heads.push_back({m.get()});
  return ops::pack_experts(heads, kDevice);
}

struct UpProjections {
  std::shared_ptr<const ops::PackedExperts> keys, values;
};

UpProjections take_up_projections(const LatentOptions& o, const io::Weights& w) {
  if (!(w.device() == kDevice)) {
    throw Error(Code::Unsupported, fmt::format("{}: latent attention runs on the CPU only; set "
                                               "MLXCEL_DEVICE=cpu",
                                               w.path()));
  }
  const int64_t heads = o.num_heads, per_head = o.nope_dim + o.value_dim;
  std::vector<Source> keys, values;
  bool present = true;
  if (w.has("embed_q") || w.has("unembed_out")) {
    const io::Weights k = w.at("embed_q"), v = w.at("unembed_out");
    present = k.has_matrix() && v.has_matrix();
    const Source all_k = k.take_matrix(heads * o.kv_lora_rank, o.nope_dim);
    const Source all_v = v.take_matrix(heads * o.value_dim, o.kv_lora_rank);
    for (int64_t h = 0; h < heads; ++h) {
      keys.push_back(matrix_rows(all_k, h * o.kv_lora_rank, o.kv_lora_rank));
      values.push_back(matrix_rows(all_v, h * o.value_dim, o.value_dim));
    }
  } else {
    const io::Weights both = w.at("kv_b_proj");
    present = both.has_matrix();
    const Source all = both.take_matrix(heads * per_head, o.kv_lora_rank);
    for (int64_t h = 0; h < heads; ++h) {
      keys.push_back(transposed(matrix_rows(all, h * per_head, o.nope_dim)));
      values.push_back(matrix_rows(all, h * per_head + o.nope_dim, o.value_dim));
    }
  }
  if (!present) return {};
  return {pack(keys), pack(values)};
}

/// 0.1 m ln(s) + 1, the temperature of YaRN (arXiv:2309.00071, section 3.4).
float yarn_mscale(double factor, double m) {
  return factor <= 1.0 ? 1.0F : static_cast<float>(0.1 * m * std::log(factor) + 1.0);
}

/// YaRN checkpoints raise the scores by the square of their temperature.
float score_factor(const io::Config& json, const RopeConfig& rope) {
  if (rope.type == RopeConfig::Type::Default) return 1.0F;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.has(key)) continue;
    const double m = json.at(key).f64_or("mscale_all_dim", 0.0);
    if (m == 0.0) return 1.0F;
    const float mscale = yarn_mscale(rope.factor, m);
    return mscale * mscale;
  }
  return 1.0F;
}

}  // namespace

LatentOptions latent_options(const io::Config& json, const DenseConfig& c,
                             const LatentDefaults& d) {
  constexpr int64_t kMost = 1 << 16;
  LatentOptions o;
  o.hidden_size = c.hidden_size;
  o.num_heads = c.num_heads;
  const Json* q_rank = json.json().find("q_lora_rank");
  const bool direct = q_rank != nullptr && q_rank->is_null();
  o.q_lora_rank = direct ? 0 : json.size_or("q_lora_rank", d.q_lora_rank, 1, kMost);
  o.kv_lora_rank = json.size_or("kv_lora_rank", d.kv_lora_rank, 1, kMost);
  o.nope_dim = json.size_or("qk_nope_head_dim", d.nope_dim, 1, 4096);
  o.rope_dim = json.size_or("qk_rope_head_dim", d.rope_dim, 2, 4096);
  o.value_dim = json.size_or("v_head_dim", d.value_dim, 1, 4096);
  o.bias = bias_from(json, "attention_bias", false);
  RopeConfig rope = RopeConfig::from(json, o.rope_dim, c.max_positions, "full_attention");
  rope.interleaved = json.flag_or("rope_interleave", true);
  o.scale = score_factor(json, rope) / std::sqrt(static_cast<float>(o.nope_dim + o.rope_dim));
  o.rope = Rope(rope);
  return o;
}

LatentAttention::LatentAttention(const LatentOptions& o, const io::Weights& w, int layer)
    : options_(o),
      layer_(layer),
      kv_a_(w.at("kv_a_proj_with_mqa"), o.hidden_size, o.kv_lora_rank + o.rope_dim, Parallel::None,
            o.bias),
      kv_norm_(w.at("kv_a_layernorm"), o.kv_lora_rank, {.eps = kLatentEps}),
      o_(w.at("o_proj"), o.num_heads * o.value_dim, o.hidden_size, Parallel::Row, o.bias) {
  const int64_t q_size = o.num_heads * (o.nope_dim + o.rope_dim);
  if (o.q_lora_rank > 0) {
    q_a_.emplace(w.at("q_a_proj"), o.hidden_size, o.q_lora_rank, Parallel::None, o.bias);
    q_norm_.emplace(w.at("q_a_layernorm"), o.q_lora_rank, NormOptions{.eps = kLatentEps});
    q_b_.emplace(w.at("q_b_proj"), o.q_lora_rank, q_size, Parallel::Column, Bias::None);
  } else {
    q_.emplace(w.at("q_proj"), o.hidden_size, q_size, Parallel::Column, Bias::None);
  }
  const UpProjections up = take_up_projections(o, w);
  key_up_ = up.keys;
  value_up_ = up.values;
}

Tensor LatentAttention::queries(const Tensor& x) const {  // [T, D] -> [T, H * (nope + rope)]
  return q_ ? (*q_)(x) : (*q_b_)((*q_norm_)((*q_a_)(x)));
}

Tensor LatentAttention::operator()(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
  MLXCEL_CHECK(key_up_ && value_up_, "attention whose weights are missing was run");
  const LatentOptions& o = options_;
  const int64_t tokens = x.dim(0), heads = o.num_heads, q_dim = o.nope_dim + o.rope_dim;
  const Tensor q = queries(x).view({tokens * heads, q_dim});  // [T * H, n + p]
  const Tensor kv = kv_a_(x);                                 // [T, r + p]
  Tensor q_rope = ops::copy_columns(q, o.nope_dim, q_dim).view({tokens, heads, o.rope_dim});
  Tensor k_rope = ops::copy_columns(kv, o.kv_lora_rank, o.kv_lora_rank + o.rope_dim)
                      .view({tokens, 1, o.rope_dim});
  if (o.rope) o.rope->apply(q_rope, k_rope, batch);
  const Tensor latent = kv_norm_(kv.slice(1, 0, o.kv_lora_rank));  // [T, r]
  const Tensor absorbed =
      ops::head_linear(q.view({tokens, heads, q_dim}).slice(2, 0, o.nope_dim), *key_up_);
  const int64_t width = o.kv_lora_rank + o.rope_dim;
  const Tensor query = ops::join_columns(absorbed.view({tokens * heads, o.kv_lora_rank}),
                                         q_rope.view({tokens * heads, o.rope_dim}))
                           .view({tokens, heads, width});  // [T, H, r + p]
  const Tensor key = ops::join_columns(latent, k_rope.view({tokens, o.rope_dim}))
                         .view({tokens, 1, width});  // [T, 1, r + p]
  const Tensor mixed =
      latent_attention(batch, layer_, query, key, o.kv_lora_rank, {.scale = o.scale});  // [T, H, r]
  const Tensor out = ops::head_linear(mixed, *value_up_);                               // [T, H, v]
  return o_(out.view({tokens, heads * o.value_dim}));
}

int64_t LatentAttention::weight_bytes() const {
  int64_t total = kv_a_.weight_bytes() + kv_norm_.weight_bytes() + o_.weight_bytes();
  for (const auto* part : {&q_, &q_a_, &q_b_}) total += *part ? (*part)->weight_bytes() : 0;
  if (q_norm_) total += q_norm_->weight_bytes();
  for (const auto* up : {&key_up_, &value_up_}) total += *up ? (*up)->bytes() : 0;
  return total;
}

std::unique_ptr<CausalLm> make_latent_decoder(const DenseConfig& c, const DenseOptions& options,
                                              const LatentOptions& latent, const io::Weights& w) {
  return make_decoder({
      .spec = {.vocab_size = c.vocab_size,
               .hidden_size = c.hidden_size,
               .intermediate_size = c.intermediate_size,
               .max_positions = options.max_positions,
               .caches = std::vector(static_cast<size_t>(c.num_layers), latent.cache())},
      .model = w.at("model"),
      .lm_head = w.at("lm_head"),
      .norm = options.block.norm,
      .tie_word_embeddings = c.tie_word_embeddings,
      .block = [&](const io::Weights& layer_weights, int layer) -> std::unique_ptr<Block> {
        auto mixer =
            std::make_unique<LatentAttention>(latent, layer_weights.at("self_attn"), layer);
        auto feed_forward = options.feed_forward ? options.feed_forward(layer_weights, layer)
                                                 : make_mlp(options.mlp, layer_weights.at("mlp"));
        return make_block(options.block, layer_weights, std::move(mixer), std::move(feed_forward));
      },
  });
}

}  // namespace mlxcel::nn
