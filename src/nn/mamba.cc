#include "nn/mamba.h"

#include "base/error.h"

namespace mlxcel::nn {

CacheSpec MambaOptions::cache() const {
  return CacheSpec::recurrent({Shape{conv_taps - 1, inner_size}, Shape{num_states, inner_size}});
}

MambaMixer::MambaMixer(const MambaOptions& o, const io::Weights& w, int layer)
    : options_(o),
      layer_(layer),
      in_(w.at("in_proj"), o.hidden_size, 2 * o.inner_size, Parallel::Column, o.proj_bias),
      x_proj_(w.at("x_proj"), o.inner_size, o.dt_rank + 2 * o.num_states, Parallel::None,
              Bias::None),
      dt_proj_(w.at("dt_proj"), o.dt_rank, o.inner_size, Parallel::Column, Bias::Required),
      out_(w.at("out_proj"), o.inner_size, o.hidden_size, Parallel::Row, o.proj_bias),
      conv_(w.at("conv1d"), {.channels = o.inner_size, .taps = o.conv_taps, .bias = o.conv_bias},
            layer),
      rates_(state_rates(w, o.inner_size, o.num_states)),
      skip_(w.take_f32("D", Shape{o.inner_size})) {
  if (!o.inner_norm) return;
  dt_norm_.emplace(w.at("dt_layernorm"), o.dt_rank, *o.inner_norm);
  b_norm_.emplace(w.at("b_layernorm"), o.num_states, *o.inner_norm);
  c_norm_.emplace(w.at("c_layernorm"), o.num_states, *o.inner_norm);
}

Tensor MambaMixer::operator()(const Tensor& x, const Batch& batch) const {  // [T, D] -> [T, D]
  const int64_t inner = options_.inner_size, rank = options_.dt_rank, n = options_.num_states;
  const Tensor both = in_(x);                              // [T, 2I]
  const Tensor u = conv_(both.slice(1, 0, inner), batch);  // [T, I]
  const Tensor selected = x_proj_(u);                      // [T, R + 2N]
  Tensor dt = selected.slice(1, 0, rank);                  // [T, R]
  Tensor b = selected.slice(1, rank, rank + n);            // [T, N]
  Tensor c = selected.slice(1, rank + n, rank + 2 * n);    // [T, N]
  if (dt_norm_) {
    dt = (*dt_norm_)(dt);
    b = (*b_norm_)(b);
    c = (*c_norm_)(c);
  }
  Tensor state = batch.caches->state(layer_, 1);
  const Tensor y = ops::selective_scan(u, ops::softplus(dt_proj_(dt), {}), rates_, b, c, skip_,
                                       state, state_segments(batch));  // [T, I]
  return out_(ops::silu_mul(both.slice(1, inner, 2 * inner), y));
}

int64_t MambaMixer::weight_bytes() const {
  int64_t total = in_.weight_bytes() + x_proj_.weight_bytes() + dt_proj_.weight_bytes() +
                  out_.weight_bytes() + conv_.weight_bytes() + rates_.bytes() + skip_.bytes();
  for (const auto* norm : {&dt_norm_, &b_norm_, &c_norm_}) {
    if (*norm) total += (*norm)->weight_bytes();
  }
  return total;
}

}  // namespace mlxcel::nn
