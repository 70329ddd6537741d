#include "nn/gated_delta.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "ops/experts.h"

namespace mlxcel::nn {
namespace {

/// Queries, keys and values end to end; z; b; a.
std::vector<StackedLinear::Part> projections(const GatedDeltaOptions& o, const io::Weights& w) {
  const auto part = [&](std::string_view name, int64_t size) {
    return StackedLinear::Part{.weights = w.at(name), .out_features = size, .bias = Bias::None};
  };
  if (w.has("in_proj_qkv")) {
    return {part("in_proj_qkv", o.conv_size()), part("in_proj_z", o.value_size()),
            part("in_proj_b", o.value_heads), part("in_proj_a", o.value_heads)};
  }
  const int64_t each = o.value_heads / o.key_heads;  // value heads of a key head
  const int64_t values = each * o.v_dim, stride = 2 * o.k_dim + 2 * values;
  const auto rows = [&](StackedLinear::Part& p, int64_t group, int64_t begin, int64_t count) {
    for (int64_t head = 0; head < o.key_heads; ++head) {
      p.rows.push_back({head * group + begin, count});
    }
    p.stored_rows = o.key_heads * group;
  };
  StackedLinear::Part qkv = part("in_proj_qkvz", o.conv_size());
  StackedLinear::Part z = part("in_proj_qkvz", o.value_size());
  StackedLinear::Part b = part("in_proj_ba", o.value_heads);
  StackedLinear::Part a = part("in_proj_ba", o.value_heads);
  rows(qkv, stride, 0, o.k_dim);
  rows(qkv, stride, o.k_dim, o.k_dim);
  rows(qkv, stride, 2 * o.k_dim, values);
  rows(z, stride, 2 * o.k_dim + values, values);
  rows(b, 2 * each, 0, each);
  rows(a, 2 * each, each, each);
  return {std::move(qkv), std::move(z), std::move(b), std::move(a)};
}

}  // namespace

CacheSpec GatedDeltaOptions::cache() const {
  return CacheSpec::recurrent(
      {Shape{conv_taps - 1, conv_size()}, Shape{value_heads, k_dim, v_dim}});
}

GatedDeltaOptions GatedDeltaOptions::from(const io::Config& c, int64_t hidden_size,
                                          float norm_eps) {
  GatedDeltaOptions o{.hidden_size = hidden_size,
                      .key_heads = c.size_or("linear_num_key_heads", 16, 1, 4096),
                      .value_heads = c.size_or("linear_num_value_heads", 32, 1, 4096),
                      .k_dim = c.size_or("linear_key_head_dim", 128, 1, 4096),
                      .v_dim = c.size_or("linear_value_head_dim", 128, 1, 4096),
                      .conv_taps = c.size_or("linear_conv_kernel_dim", 4, 2, 64),
                      .norm_eps = norm_eps};
  if (o.value_heads % o.key_heads != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: linear_num_value_heads = {} is not a multiple of "
                            "linear_num_key_heads = {}",
                            c.source(), o.value_heads, o.key_heads));
  }
  return o;
}

Tensor unit_gain(int64_t dim, float length) {
  return filled(dim, length / std::sqrt(static_cast<float>(dim)));
}
float unit_epsilon(int64_t dim) { return 1e-6F / static_cast<float>(dim); }

GatedDeltaMixer::GatedDeltaMixer(const GatedDeltaOptions& o, const io::Weights& w, int layer)
    : options_(o),
      layer_(layer),
      in_(projections(o, w), o.hidden_size, Parallel::Column),
      conv_(w.at("conv1d"), {.channels = o.conv_size(), .taps = o.conv_taps}, layer),
      dt_bias_(w.take_f32("dt_bias", Shape{o.value_heads})),
      rates_(head_rates(w, o.value_heads)),
      q_gain_(unit_gain(o.k_dim, 1.0F / std::sqrt(static_cast<float>(o.k_dim)))),
      k_gain_(unit_gain(o.k_dim, 1.0F)),
      norm_(w.at("norm"), o.v_dim, {.eps = o.norm_eps}),
      out_(w.at("out_proj"), o.value_size(), o.hidden_size, Parallel::Row, Bias::None) {}

Tensor GatedDeltaMixer::operator()(const Tensor& x, const Batch& batch) const {
  const GatedDeltaOptions& o = options_;
  const int64_t keys = o.key_size(), wide = o.conv_size();
  const std::vector<Tensor> parts = in_.heads(x, 1);  // [T, size, 1] each
  const auto flat = [&](size_t i) { return parts[i].view({x.dim(0), parts[i].dim(1)}); };
  const Tensor qkv = conv_(flat(0), batch);  // [T, C]
  const auto unit = [&](int64_t begin, const Tensor& gain) {
    const Tensor heads = qkv.slice(1, begin, begin + keys).view({x.dim(0), o.key_heads, o.k_dim});
    return ops::rms_norm(heads, gain, unit_epsilon(o.k_dim)).view({x.dim(0), keys});
  };
  const Tensor decay = ops::softplus_decay(flat(3), dt_bias_, rates_);  // [T, Hv]
  Tensor state = batch.caches->state(layer_, 1);
  const Tensor y =
      ops::delta_scan(unit(0, q_gain_), unit(keys, k_gain_), qkv.slice(1, 2 * keys, wide), decay,
                      ops::sigmoid(flat(2)), state, state_segments(batch));  // [T, Hv * Dv]
  const Tensor normed = norm_(y.view({x.dim(0), o.value_heads, o.v_dim}));
  return out_(ops::silu_mul(flat(1), normed.view({x.dim(0), o.value_size()})));
}

int64_t GatedDeltaMixer::weight_bytes() const {
  return in_.weight_bytes() + conv_.weight_bytes() + dt_bias_.bytes() + rates_.bytes() +
         norm_.weight_bytes() + out_.weight_bytes();
}

}  // namespace mlxcel::nn
