#include "nn/kimi_delta.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "nn/gated_delta.h"
#include "ops/experts.h"

namespace mlxcel::nn {
namespace {

/// -exp(A_log) of every head, once for each of its elements.
Tensor element_rates(const io::Weights& w, const KimiDeltaOptions& o) {
  const Tensor stored = flat_f32(w, "A_log", o.num_heads);
  Tensor out = Tensor::empty(Shape{o.width()}, DType::F32);
  auto to = out.host_mut<float>().begin();
  for (const float a : stored.host<float>()) to = std::fill_n(to, o.head_dim, -std::exp(a));
  return out;
}

StackedLinear projections(const KimiDeltaOptions& o, const io::Weights& w) {
  std::vector<StackedLinear::Part> parts;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    parts.push_back({.weights = w.at(name), .out_features = o.width(), .bias = Bias::None});
  }
  return {parts, o.hidden_size, Parallel::Column};
}

}  // namespace

CacheSpec KimiDeltaOptions::cache() const {
  const Shape line{conv_taps - 1, width()};
  return CacheSpec::recurrent({line, line, line, Shape{num_heads, head_dim, head_dim}});
}

KimiDeltaMixer::KimiDeltaMixer(const KimiDeltaOptions& o, const io::Weights& w, int layer)
    : options_(o),
      layer_(layer),
      qkv_(projections(o, w)),
      f_a_(w.at("f_a_proj"), o.hidden_size, o.head_dim, Parallel::None, Bias::None),
      f_b_(w.at("f_b_proj"), o.head_dim, o.width(), Parallel::None, Bias::None),
      b_(w.at("b_proj"), o.hidden_size, o.num_heads, Parallel::None, Bias::None),
      g_a_(w.at("g_a_proj"), o.hidden_size, o.head_dim, Parallel::None, Bias::None),
      g_b_(w.at("g_b_proj"), o.head_dim, o.width(), Parallel::None, Bias::None),
      out_(w.at("o_proj"), o.width(), o.hidden_size, Parallel::Row, Bias::None),
      dt_bias_(flat_f32(w, "dt_bias", o.width())),
      rates_(element_rates(w, o)),
      q_gain_(unit_gain(o.head_dim, 1.0F / std::sqrt(static_cast<float>(o.head_dim)))),
      k_gain_(unit_gain(o.head_dim, 1.0F)),
      norm_(w.at("o_norm"), o.head_dim, {.eps = o.norm_eps}) {
  for (int i = 0; i < 3; ++i) {
    const std::string name = std::string(1, "qkv"[i]) + "_conv";
    const io::Weights conv = w.has(name) ? w.at(name).at("conv") : w.at(name + "1d");
    convs_.emplace_back(
        conv, ShortConv::Options{.channels = o.width(), .taps = o.conv_taps, .state_index = i},
        layer);
  }
}

Tensor KimiDeltaMixer::operator()(const Tensor& x, const Batch& batch) const {
  const KimiDeltaOptions& o = options_;
  const int64_t t = x.dim(0), wide = o.width();
  const std::vector<Tensor> heads = qkv_.heads(x, o.head_dim);  // 3 x [T, H, D]
  const auto mixed = [&](size_t i) { return convs_[i](heads[i].view({t, wide}), batch); };
  const auto unit = [&](const Tensor& y, const Tensor& gain) {
    return ops::rms_norm(y.view({t, o.num_heads, o.head_dim}), gain, unit_epsilon(o.head_dim))
        .view({t, wide});
  };
  const Tensor decay = ops::softplus_decay(f_b_(f_a_(x)), dt_bias_, rates_);  // [T, H * D]
  Tensor state = batch.caches->state(layer_, 3);
  const Tensor y = ops::delta_scan(unit(mixed(0), q_gain_), unit(mixed(1), k_gain_), mixed(2),
                                   decay, ops::sigmoid(b_(x)), state, state_segments(batch));
  const Tensor normed = norm_(y.view({t, o.num_heads, o.head_dim})).view({t, wide});
  return out_(ops::mul(normed, ops::sigmoid(g_b_(g_a_(x)))));
}

int64_t KimiDeltaMixer::weight_bytes() const {
  int64_t total = qkv_.weight_bytes() + dt_bias_.bytes() + rates_.bytes() + norm_.weight_bytes();
  for (const ShortConv& conv : convs_) total += conv.weight_bytes();
  for (const Linear* p : {&f_a_, &f_b_, &b_, &g_a_, &g_b_, &out_}) total += p->weight_bytes();
  return total;
}

}  // namespace mlxcel::nn
