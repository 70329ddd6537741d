#include "nn/mamba2.h"

#include <algorithm>

#include "base/error.h"

namespace mlxcel::nn {
namespace {

using NormPlace = Mamba2Options::NormPlace;

/// One factor for every column of in_proj.
Tensor column_factors(const Mamba2Options& o) {
  if (o.multipliers.empty()) return {};
  MLXCEL_CHECK(o.multipliers.size() == 5, "a multiplier for each of z, u, B, C and dt");
  const int64_t inner = o.inner_size(), shared = o.num_groups * o.num_states;
  const int64_t sizes[] = {inner, inner, shared, shared, o.num_heads};
  Tensor out = Tensor::empty(Shape{inner + o.conv_size() + o.num_heads}, DType::F32);
  auto to = out.host_mut<float>().begin();
  for (size_t i = 0; i < 5; ++i) to = std::fill_n(to, sizes[i], o.multipliers[i]);
  return out;
}

}  // namespace

std::vector<Shape> Mamba2Options::states() const {
  return {Shape{conv_taps - 1, conv_size()}, Shape{num_heads, num_states, head_dim}};
}

Mamba2Mixer::Mamba2Mixer(const Mamba2Options& o, const io::Weights& w, int layer)
    : options_(o),
      layer_(layer),
      in_(w.at("in_proj"), o.hidden_size, o.inner_size() + o.conv_size() + o.num_heads,
          Parallel::Column, o.in_bias),
      out_(w.at("out_proj"), o.inner_size(), o.hidden_size, Parallel::Row, o.out_bias),
      conv_(w.at("conv1d"),
            {.channels = o.conv_size(),
             .taps = o.conv_taps,
             .bias = o.conv_bias,
             .state_index = o.state_index},
            layer),
      dt_bias_(flat_f32(w, "dt_bias", o.num_heads)),
      rates_(head_rates(w, o.num_heads)),
      skip_(flat_f32(w, "D", o.num_heads)),
      factors_(column_factors(o)) {
  if (o.norm_place == NormPlace::None) return;
  MLXCEL_CHECK(o.inner_size() % o.norm_groups == 0, "norm groups do not divide the inner size");
  gain_ = flat_f32(w.at("norm"), "weight", o.inner_size());
  ones_ = filled(o.inner_size() / o.norm_groups, 1.0F);
}

Tensor Mamba2Mixer::norm(const Tensor& y) const {
  const int64_t group = options_.inner_size() / options_.norm_groups;
  const Tensor normed =
      ops::rms_norm(y.view({-1, options_.norm_groups, group}), ones_, options_.norm_eps);
  return ops::mul_row(normed.view({-1, options_.inner_size()}), gain_);
}

Tensor Mamba2Mixer::operator()(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
  const Mamba2Options& o = options_;
  const int64_t inner = o.inner_size(), wide = inner + o.conv_size();
  const int64_t shared = o.num_groups * o.num_states;
  Tensor all = in_(x);  // [T, I + C + H]
  if (factors_) all = ops::mul_row(all, factors_);
  const Tensor z = all.slice(1, 0, inner);                     // [T, I]
  const Tensor ubc = conv_(all.slice(1, inner, wide), batch);  // [T, C]
  const Tensor dt =
      ops::softplus(all.slice(1, wide, wide + o.num_heads), dt_bias_, o.dt_low, o.dt_high);
  Tensor state = batch.caches->state(layer_, o.state_index + 1);
  Tensor y = ops::ssd_scan(ubc.slice(1, 0, inner), dt, rates_, ubc.slice(1, inner, inner + shared),
                           ubc.slice(1, inner + shared, inner + 2 * shared), skip_, state,
                           state_segments(batch));  // [T, I]
  if (o.norm_place == NormPlace::BeforeGate) y = norm(y);
  y = ops::silu_mul(z, y);
  if (o.norm_place == NormPlace::AfterGate) y = norm(y);
  return out_(y);
}

int64_t Mamba2Mixer::weight_bytes() const {
  return in_.weight_bytes() + out_.weight_bytes() + conv_.weight_bytes() + dt_bias_.bytes() +
         rates_.bytes() + skip_.bytes() + (gain_ ? gain_.bytes() : 0);
}

}  // namespace mlxcel::nn
