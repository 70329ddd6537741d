// RecurrentGemma and Griffin: pre-norm blocks that repeat a short unit of mixers, two recurrent
// ones to one of local attention, each followed by a GeGLU MLP. A recurrent mixer is
//
//   y = GELU(linear_y(x)),  u = conv(linear_x(x)),  linear_out(RG-LRU(u) * y)
//
// with gates of the RG-LRU that are block-diagonal, one block a head.
//
// Papers: Griffin (arXiv:2402.19427), RecurrentGemma (arXiv:2404.07839).

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/family.h"
#include "nn/dense_decoder.h"
#include "nn/hybrid_decoder.h"
#include "nn/recurrent.h"
#include "tensor/dtype.h"

namespace mlxcel::models {
namespace {

class RecurrentMixer final : public nn::Mixer {
 public:
  RecurrentMixer(const nn::DenseConfig& c, int64_t width, int64_t taps, const io::Weights& w,
                 int layer)
      : layer_(layer),
        y_(w.at("linear_y"), c.hidden_size, width, nn::Parallel::Column, nn::Bias::Required),
        x_(w.at("linear_x"), c.hidden_size, width, nn::Parallel::Column, nn::Bias::Required),
        out_(w.at("linear_out"), width, c.hidden_size, nn::Parallel::Row, nn::Bias::Required),
        conv_(w.at("conv_1d"),
              {.channels = width, .taps = taps, .bias = nn::Bias::Required, .silu = false}, layer) {
    const io::Weights lru = w.at("rg_lru");
    const int64_t heads = c.num_heads, block = width / heads;
    const Shape square{heads, block, block}, rows{heads, block};
    input_weight_ = lru.take_f32("input_gate_weight", square);
    input_bias_ = lru.take_f32("input_gate_bias", rows).view({width});
    recurrence_weight_ = lru.take_f32("recurrent_gate_weight", square);
    recurrence_bias_ = lru.take_f32("recurrent_gate_bias", rows).view({width});
    factor_ = ops::softplus(lru.take_f32("recurrent_param", Shape{width}).view({1, width}), {});
    factor_ = ops::scale(factor_, -8.0F).view({width});
  }

  Tensor operator()(const Tensor& x, const nn::Batch& batch) const override {  // [T, D] -> [T, D]
    const Tensor gate = ops::activate(y_(x), ops::Activation::GeluTanh);       // [T, W]
    const Tensor u = conv_(x_(x), batch);                                      // [T, W]
    Tensor state = batch.caches->state(layer_, 1);
    const Tensor h = ops::rg_lru_scan(u, ops::block_linear(u, input_weight_, input_bias_),
                                      ops::block_linear(u, recurrence_weight_, recurrence_bias_),
                                      factor_, batch.positions, state, nn::state_segments(batch));
    return out_(ops::mul(h, gate));
  }

  int64_t weight_bytes() const override {
    return y_.weight_bytes() + x_.weight_bytes() + out_.weight_bytes() + conv_.weight_bytes() +
           input_weight_.bytes() + input_bias_.bytes() + recurrence_weight_.bytes() +
           recurrence_bias_.bytes() + factor_.bytes();
  }

 private:
  int layer_;
  nn::Linear y_, x_, out_;
  nn::ShortConv conv_;
  Tensor input_weight_, input_bias_, recurrence_weight_, recurrence_bias_;
  Tensor factor_;  // [W]: the logarithm of the decay of a fully open gate
};

/// The layers that attend: entry i of the model is entry i mod n of block_types.
std::vector<bool> attention_layers(const io::Config& json, int64_t num_layers) {
  std::vector<bool> unit = {false, false, true};
  if (json.has("block_types")) {
    unit.clear();
    for (const Json& entry : json.json().find("block_types")->as_array()) {
      const std::string& type = entry.as_string();
      if (type != "recurrent" && type != "attention") {
        throw Error(Code::Unsupported, fmt::format("{}: block_types[{}] = \"{}\" is not supported",
                                                   json.source(), unit.size(), type));
      }
      unit.push_back(type == "attention");
    }
    if (unit.empty()) throw Error(Code::InvalidArgument, json.source() + ": block_types is empty");
  }
  std::vector<bool> attends;
  for (int64_t i = 0; i < num_layers; ++i) {
    attends.push_back(unit[static_cast<size_t>(i) % unit.size()]);
  }
  return attends;
}

LoadedModel load_recurrent_gemma(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 8192});
  json.expect("hidden_activation", "gelu_pytorch_tanh");
  const int64_t width = json.size_or("lru_width", c.hidden_size, 1, nn::kMaxInnerSize);
  if (width % c.num_heads != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: lru_width = {} is not a multiple of num_attention_heads = {}",
                            json.source(), width, c.num_heads));
  }
  const int64_t taps = json.size_or("conv1d_width", 4, 2, 64);
  const nn::RopeConfig rope = nn::RopeConfig::from(
      json, c.head_dim, c.max_positions, "sliding_attention", {.partial_rotary_factor = 0.5});
  nn::GqaOptions attention{.hidden_size = c.hidden_size,
                           .num_heads = c.num_heads,
                           .num_kv_heads = c.num_kv_heads,
                           .head_dim = c.head_dim,
                           .rope = nn::Rope(rope),
                           .window = nn::window_from(json, "attention_window_size", 2048)};
  attention.qkv_bias = nn::bias_from(json, "attention_bias", false);
  attention.o_bias = nn::Bias::Required;
  const std::vector<bool> attends = attention_layers(json, c.num_layers);
  const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                           .intermediate_size = c.intermediate_size / 2,
                           .activation = ops::Activation::GeluTanh,
                           .bias = nn::Bias::Required};

  nn::HybridOptions o;
  o.vocab_size = c.vocab_size;
  o.hidden_size = c.hidden_size;
  o.intermediate_size = mlp.intermediate_size;
  o.max_positions = rope.usable_positions();
  for (const bool a : attends) {
    o.caches.push_back(a ? attention.cache()
                         : nn::CacheSpec::recurrent({Shape{taps - 1, width}, Shape{width}}));
  }
  o.block = {.hidden_size = c.hidden_size,
             .norm = {.eps = c.norm_eps, .offset = 1.0F},
             .names = {.mixer_in = "temporal_pre_norm", .ff_in = "channel_pre_norm"}};
  o.mixer = [&](const io::Weights& layer, int index) -> std::unique_ptr<nn::Mixer> {
    const io::Weights block = layer.at("temporal_block");
    if (attends[static_cast<size_t>(index)]) {
      return std::make_unique<nn::GqaAttention>(attention, block, index);
    }
    return std::make_unique<RecurrentMixer>(c, width, taps, block, index);
  };
  o.feed_forward = [&](const io::Weights& layer, int) {
    return nn::make_mlp(mlp, layer.at("mlp_block"));
  };
  o.tie_word_embeddings = json.flag_or("tie_word_embeddings", true);
  // The reference keeps this factor in bfloat16.
  o.embed_scale = bf16_to_f32(f32_to_bf16(std::sqrt(static_cast<float>(c.hidden_size))));
  o.logit_softcap = nn::positive_or_null(json, "logits_soft_cap", 30.0F);
  return {.lm = nn::make_hybrid_decoder(o, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"recurrent_gemma", "griffin"};
constexpr std::array<io::Rename, 1> kNames = {{{"model.final_norm.*", "model.norm.*"}}};

}  // namespace

extern const Family kRecurrentGemma;
const Family kRecurrentGemma = {
    "recurrent_gemma",    "RecurrentGemma, Griffin", "hybrid_ssm", kTypes, {}, kNames,
    load_recurrent_gemma, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
