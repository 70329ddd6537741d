#include "nn/gqa_block.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "nn/attention.h"

namespace mlxcel::nn {
namespace {

StackedLinear query_key_value(const GqaOptions& o, const io::Weights& w) {
  const int64_t q_size = o.num_heads * o.head_dim, kv_size = o.num_kv_heads * o.head_dim;
  const std::array<StackedLinear::Part, 3> parts = {{
      {.weights = w.at("q_proj"), .out_features = q_size, .bias = o.qkv_bias},
      {.weights = w.at("k_proj"), .out_features = kv_size, .bias = o.qkv_bias},
      {.weights = w.at("v_proj"), .out_features = kv_size, .bias = o.qkv_bias},
  }};
  return {parts, o.hidden_size, Parallel::Column};
}

class PreNormBlock final : public Block {
 public:
  PreNormBlock(const DenseConfig& c, const PreNormOptions& p, const GqaOptions& attention,
               const io::Weights& w, const Rope& rope, int layer)
      : attn_norm_(w.at("input_layernorm"), c.hidden_size, c.rms_norm_eps),
        attn_(attention, w.at("self_attn"), rope, layer),
        mlp_norm_(w.at("post_attention_layernorm"), c.hidden_size, c.rms_norm_eps),
        mlp_(w.at("mlp"), c.hidden_size, c.intermediate_size, p.mlp_bias) {}

  Tensor operator()(const Tensor& x, const Batch& batch) const override {  // [T, D] -> [T, D]
    const auto [a, h] = mlp_norm_.add(x, attn_(attn_norm_(x), batch));     // [T, D] each
    return ops::add(a, mlp_(h));
  }

  int64_t weight_bytes() const override {
    return attn_norm_.weight_bytes() + attn_.weight_bytes() + mlp_norm_.weight_bytes() +
           mlp_.weight_bytes();
  }

 private:
  RmsNorm attn_norm_;
  GqaAttention attn_;
  RmsNorm mlp_norm_;
  SwiGlu mlp_;
};

GqaOptions attention_options(const DenseConfig& c, const PreNormOptions& p, int layer) {
  return {.hidden_size = c.hidden_size,
          .num_heads = c.num_heads,
          .num_kv_heads = c.num_kv_heads,
          .head_dim = c.head_dim,
          .window = p.windows.empty() ? 0 : p.windows.at(static_cast<size_t>(layer)),
          .qkv_bias = p.qkv_bias,
          .o_bias = p.o_bias,
          .qk_norm_eps = p.qk_norm ? std::optional(c.rms_norm_eps) : std::nullopt};
}

}  // namespace

GqaAttention::GqaAttention(const GqaOptions& options, const io::Weights& w, const Rope& rope,
                           int layer)
    : options_(options),
      layer_(layer),
      rope_(rope),
      qkv_(query_key_value(options, w)),
      o_(w.at("o_proj"), options.num_heads * options.head_dim, options.hidden_size, Parallel::Row,
         options.o_bias) {
  if (options.qk_norm_eps) {
    q_norm_.emplace(w.at("q_norm"), options.head_dim, *options.qk_norm_eps);
    k_norm_.emplace(w.at("k_norm"), options.head_dim, *options.qk_norm_eps);
  }
}

Tensor GqaAttention::operator()(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
  std::vector<Tensor> heads = qkv_.heads(x, options_.head_dim);
  Tensor& q = heads[0];  // [T, H, Dh]
  Tensor& k = heads[1];  // [T, Hk, Dh]
  if (q_norm_) q = (*q_norm_)(q);
  if (k_norm_) k = (*k_norm_)(k);
  rope_.apply(q, k, batch.positions);
  const float scale = 1.0F / std::sqrt(static_cast<float>(options_.head_dim));
  const Tensor o = attention(batch, layer_, q, k, heads[2],
                             {.scale = scale, .window = options_.window});  // [T, H, Dh]
  return o_(o.view({-1, options_.num_heads * options_.head_dim}));
}

int64_t GqaAttention::weight_bytes() const {
  return qkv_.weight_bytes() + o_.weight_bytes() + (q_norm_ ? q_norm_->weight_bytes() : 0) +
         (k_norm_ ? k_norm_->weight_bytes() : 0);
}

std::unique_ptr<CausalLm> make_pre_norm_decoder(const DenseConfig& c, const PreNormOptions& options,
                                                const io::Config& json, const io::Weights& w) {
  const RopeConfig rotary = RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention");
  if (rotary.rotary_dim != c.head_dim) {
    throw Error(Code::Unsupported,
                json.source() + ": partial_rotary_factor below 1 is not supported by this family");
  }
  const Rope rope(rotary);
  std::vector<CacheSpec> caches;
  for (int64_t layer = 0; layer < c.num_layers; ++layer) {
    const int32_t window =
        options.windows.empty() ? 0 : options.windows.at(static_cast<size_t>(layer));
    caches.push_back(window > 0 ? CacheSpec::sliding(c.num_kv_heads, c.head_dim, window)
                                : CacheSpec::full(c.num_kv_heads, c.head_dim));
  }
  return make_decoder({
      .spec = {.vocab_size = c.vocab_size,
               .hidden_size = c.hidden_size,
               .intermediate_size = c.intermediate_size,
               .max_positions = rotary.usable_positions(),
               .caches = std::move(caches)},
      .model = w.at("model"),
      .lm_head = w.at("lm_head"),
      .rms_norm_eps = c.rms_norm_eps,
      .tie_word_embeddings = c.tie_word_embeddings,
      .block = [&c, &options, &rope](const io::Weights& layer_weights,
                                     int layer) -> std::unique_ptr<Block> {
        return std::make_unique<PreNormBlock>(c, options, attention_options(c, options, layer),
                                              layer_weights, rope, layer);
      },
  });
}

}  // namespace mlxcel::nn
