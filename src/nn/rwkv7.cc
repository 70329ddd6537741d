#include "nn/rwkv7.h"

#include <array>

#include "nn/gated_delta.h"
#include "ops/experts.h"

namespace mlxcel::nn {
namespace {

constexpr float kGroupEps = 64e-5F;
constexpr float kTiny = 1e-14F;  // keeps a zero vector zero

/// Taps of a convolution that mixes each of several shares `mu` of the token before, [2, M * D].
Tensor shift_taps(const io::Weights& w, std::span<const std::string_view> names, int64_t n) {
  const auto count = static_cast<int64_t>(names.size());
  Tensor taps = Tensor::empty(Shape{2, count * n}, DType::F32);
  auto out = taps.host_mut<float>();
  for (size_t i = 0; i < names.size(); ++i) {
    const Tensor mu = flat_f32(w, names[i], n);
    const auto values = mu.host<float>();
    for (size_t j = 0; j < values.size(); ++j) {
      const size_t at = i * values.size() + j;
      out[at] = values[j];
      out[static_cast<size_t>(count * n) + at] = 1.0F - values[j];
    }
  }
  return taps;
}

Tensor same(const Tensor& x) { return x; }
Tensor tanh_of(const Tensor& x) { return ops::activate(x, ops::Activation::Tanh); }

}  // namespace

Rwkv7TimeMix::LowRank::LowRank(const io::Weights& w, int64_t size, int64_t rank, Bias bias)
    : down_(w.at("lora.0"), size, rank, Parallel::None, Bias::None),
      up_(w.at("lora.2"), rank, size, Parallel::None, bias) {}

Linear Rwkv7TimeMix::projection(const io::Weights& w, std::string_view name) const {
  return {w.at(name), sizes_.hidden, sizes_.hidden, Parallel::None, Bias::None};
}

Rwkv7TimeMix::Rwkv7TimeMix(const Rwkv7Sizes& s, const io::Weights& w, int layer)
    : sizes_(s),
      layer_(layer),
      r_(projection(w, "r_proj")),
      k_(projection(w, "k_proj")),
      v_(projection(w, "v_proj")),
      o_(projection(w, "o_proj")),
      w_lora_(w.at("w_lora"), s.hidden, s.w_rank, Bias::Required),
      a_lora_(w.at("a_lora"), s.hidden, s.a_rank, Bias::Required),
      g_lora_(w.at("g_lora"), s.hidden, s.g_rank, Bias::None),
      k_k_(flat_f32(w, "k_k", s.hidden)),
      k_a_(flat_f32(w, "k_a", s.hidden)),
      r_k_(flat_f32(w, "r_k", s.hidden)),
      norm_gain_(flat_f32(w.at("g_norm"), "weight", s.hidden)),
      norm_bias_(flat_f32(w.at("g_norm"), "bias", s.hidden)),
      unit_(unit_gain(s.head_dim, 1.0F)) {
  require_recurrent_kernels(w);
  constexpr std::array<std::string_view, 6> kShifts = {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g"};
  taps_ = shift_taps(w, kShifts, s.hidden);
  if (layer > 0) v_lora_.emplace(w.at("v_lora"), s.hidden, s.v_rank, Bias::Required);
  k_rest_ = Tensor::empty(Shape{s.hidden}, DType::F32);
  auto rest = k_rest_.host_mut<float>().begin();
  for (const float a : k_a_.host<float>()) *rest++ = 1.0F - a;
}

Tensor Rwkv7TimeMix::operator()(const Tensor& x, const Batch& batch, Tensor& v_first) const {
  const int64_t d = sizes_.hidden, t = x.dim(0);
  const auto segments = state_segments(batch);
  Tensor before = batch.caches->state(layer_, 0);
  const Tensor shifted = ops::causal_conv1d(x, taps_, {}, false, before, segments);  // [T, 6D]
  const auto s = [&](int64_t i) { return shifted.slice(1, i * d, (i + 1) * d); };
  const Tensor r = r_(s(0)), k = k_(s(2));  // [T, D]
  Tensor v = v_(s(3));                      // [T, D]
  const Tensor w = ops::activate(ops::scale(ops::sigmoid(w_lora_(s(1), tanh_of)), -0.606531F),
                                 ops::Activation::Exp);
  const Tensor a = ops::sigmoid(a_lora_(s(4), same));
  if (!v_lora_) {
    v_first = v;
  } else {
    const Tensor share = ops::sigmoid((*v_lora_)(s(3), same));
    v = ops::add(v, ops::mul(ops::add(v_first, ops::scale(v, -1.0F)), share));
  }
  const Tensor marks = ops::rms_norm(ops::mul_row(k, k_k_).view({t, sizes_.heads, sizes_.head_dim}),
                                     unit_, kTiny / static_cast<float>(sizes_.head_dim))
                           .view({t, d});
  const Tensor key = ops::mul(k, ops::scale_columns(a, k_a_, k_rest_));
  Tensor state = batch.caches->state(layer_, 1);
  const Tensor y = ops::rwkv7_scan(r, w, key, v, ops::scale(marks, -1.0F), ops::mul(marks, a),
                                   state, segments);  // [T, D]
  const Tensor normed =
      ops::layer_norm(y.view({t, sizes_.heads, sizes_.head_dim}), {}, {}, kGroupEps).view({t, d});
  const Tensor now = ops::head_dot_scale(ops::mul_row(r, r_k_), key, v, sizes_.heads);
  const Tensor out = ops::add(ops::scale_columns(normed, norm_gain_, norm_bias_), now);
  return o_(ops::mul(out, g_lora_(s(5), ops::sigmoid)));
}

int64_t Rwkv7TimeMix::weight_bytes() const {
  int64_t total = v_lora_ ? v_lora_->weight_bytes() : 0;
  for (const Linear* p : {&r_, &k_, &v_, &o_}) total += p->weight_bytes();
  for (const LowRank* p : {&w_lora_, &a_lora_, &g_lora_}) total += p->weight_bytes();
  for (const Tensor* p : {&k_k_, &k_a_, &r_k_, &norm_gain_, &norm_bias_, &taps_}) {
    total += p->bytes();
  }
  return total;
}

Rwkv7ChannelMix::Rwkv7ChannelMix(const Rwkv7Sizes& s, const io::Weights& w, int layer)
    : layer_(layer),
      key_(w.at("key"), s.hidden, s.intermediate, Parallel::None, Bias::None),
      value_(w.at("value"), s.intermediate, s.hidden, Parallel::None, Bias::None) {
  constexpr std::array<std::string_view, 1> kShift = {"x_k"};
  taps_ = shift_taps(w, kShift, s.hidden);
}

Tensor Rwkv7ChannelMix::operator()(const Tensor& x, const Batch& batch) const {
  Tensor before = batch.caches->state(layer_, 2);
  const Tensor shifted = ops::causal_conv1d(x, taps_, {}, false, before, state_segments(batch));
  return value_(ops::activate(key_(shifted), ops::Activation::Relu2));
}

}  // namespace mlxcel::nn
