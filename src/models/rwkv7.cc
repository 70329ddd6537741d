// RWKV-7 (arXiv:2503.14456): every layer mixes over time with a matrix state for each head, then
// over channels; both see the token before through learned shifts. The mixers are in nn/rwkv7.h;
// names are those of the published flash-linear-attention checkpoints.

#include <fmt/core.h>

#include <array>
#include <optional>

#include "models/family.h"
#include "nn/dense_config.h"
#include "nn/rwkv7.h"

namespace mlxcel::models {
namespace {

struct Layer {
  Layer(const nn::Rwkv7Sizes& s, const io::Weights& w, int index)
      : time_norm(w.at("attn_norm"), s.hidden, s.norm),
        time(s, w.at("attn"), index),
        channel_norm(w.at("ffn_norm"), s.hidden, s.norm),
        channel(s, w.at("ffn"), index) {
    if (index == 0) pre_norm.emplace(w.at("pre_norm"), s.hidden, s.norm);
  }
  int64_t weight_bytes() const {
    return (pre_norm ? pre_norm->weight_bytes() : 0) + time_norm.weight_bytes() +
           time.weight_bytes() + channel_norm.weight_bytes() + channel.weight_bytes();
  }
  std::optional<nn::Norm> pre_norm;
  nn::Norm time_norm;
  nn::Rwkv7TimeMix time;
  nn::Norm channel_norm;
  nn::Rwkv7ChannelMix channel;
};

/// The values of the first layer reach all others, which the shared skeleton has no word for.
class Rwkv7 final : public nn::CausalLm {
 public:
  Rwkv7(nn::ModelSpec spec, const nn::Rwkv7Sizes& s, bool tied, const io::Weights& w)
      : spec_(std::move(spec)),
        embeddings_(w.at("model.embeddings"), spec_.vocab_size, spec_.hidden_size),
        norm_(w.at("model.norm"), s.hidden, s.norm) {
    for (size_t i = 0; i < spec_.caches.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      layers_.emplace_back(s, w.at("model").at("layers", index), static_cast<int>(i));
    }
    if (!tied) head_.emplace(w.at("lm_head"), s.hidden, spec_.vocab_size);
    weight_bytes_ =
        embeddings_.weight_bytes() + norm_.weight_bytes() + (head_ ? head_->weight_bytes() : 0);
    for (const Layer& layer : layers_) weight_bytes_ += layer.weight_bytes();
  }

  const nn::ModelSpec& spec() const override { return spec_; }
  int64_t weight_bytes() const override { return weight_bytes_; }

  Tensor forward(const nn::Batch& batch) const override {
    Tensor x = batch.embeds ? batch.embeds : embeddings_(batch.token_ids);  // [T, D]
    Tensor v_first;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      if (layer.pre_norm) x = (*layer.pre_norm)(x);
      const auto [a, h] = layer.channel_norm.add(x, layer.time(layer.time_norm(x), batch, v_first));
      x = ops::add(a, layer.channel(h, batch));
      if (batch.capture_hidden) batch.capture_hidden(static_cast<int>(i), x);
    }
    if (batch.logit_rows.numel() == 0) {
      return Tensor::empty(Shape{0, spec_.vocab_size}, DType::F32, x.device());
    }
    x = norm_(ops::take_rows(x, batch.logit_rows));  // [R, D]
    return head_ ? (*head_)(x) : embeddings_.logits(x);
  }

 private:
  nn::ModelSpec spec_;
  nn::Embedding embeddings_;
  std::vector<Layer> layers_;
  nn::Norm norm_;
  std::optional<nn::Linear> head_;
  int64_t weight_bytes_ = 0;
};

LoadedModel load_rwkv7(const io::Config& json, const io::Weights& w) {
  if (json.has("hidden_act")) json.expect("hidden_act", "sqrelu");
  nn::Rwkv7Sizes s;
  s.hidden = json.size("hidden_size", 1, 1 << 20);
  s.intermediate = json.size("intermediate_size", 1, 1 << 22);
  s.head_dim = json.size_or("head_dim", 64, 1, 4096);
  s.heads = s.hidden / s.head_dim;
  if (s.heads * s.head_dim != s.hidden) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: hidden_size = {} is not a multiple of head_dim = {}",
                            json.source(), s.hidden, s.head_dim));
  }
  s.w_rank = json.size("decay_low_rank_dim", 1, 1 << 16);
  s.a_rank = json.size("a_low_rank_dim", 1, 1 << 16);
  s.v_rank = json.size("v_low_rank_dim", 1, 1 << 16);
  s.g_rank = json.size("gate_low_rank_dim", 1, 1 << 16);
  s.norm = {.kind = nn::NormOptions::Kind::LayerNorm,
            .eps = json.f32_or("norm_eps", 1e-5F),
            .has_bias = true};
  nn::ModelSpec spec{
      .vocab_size = json.size("vocab_size", 1, 1 << 24),
      .hidden_size = s.hidden,
      .intermediate_size = s.intermediate,
      .max_positions = json.size_or("max_position_embeddings", nn::kNoPositionLimit)};
  spec.caches.assign(static_cast<size_t>(json.size("num_hidden_layers", 1, 4096)), s.cache());
  const bool tied = json.flag_or("tie_word_embeddings", false);
  return {.lm = std::make_unique<Rwkv7>(std::move(spec), s, tied, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"rwkv7"};

}  // namespace

extern const Family kRwkv7;
const Family kRwkv7 = {"rwkv7", "RWKV-7", "linear_attention", kTypes,
                       {},      {},       load_rwkv7,         PrefixSharing::Snapshots};

}  // namespace mlxcel::models
