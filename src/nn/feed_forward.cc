#include "nn/feed_forward.h"

#include <cmath>
#include <optional>
#include <vector>

namespace mlxcel::nn {
namespace {

StackedLinear inputs(const MlpOptions& o, const io::Weights& w) {
  std::vector<StackedLinear::Part> parts;
  if (o.gated && w.has(o.fused)) {
    parts.push_back(
        {.weights = w.at(o.fused), .out_features = 2 * o.intermediate_size, .bias = o.bias});
  } else {
    if (o.gated) {
      parts.push_back(
          {.weights = w.at(o.gate), .out_features = o.intermediate_size, .bias = o.bias});
    }
    parts.push_back({.weights = w.at(o.up), .out_features = o.intermediate_size, .bias = o.bias});
  }
  return {parts, o.hidden_size, Parallel::Column};
}

/// act_fn holds alpha_p and alpha_n before the softplus that keeps them positive, and maybe beta
/// and eps.
ops::XieluOptions xielu_of(const io::Weights& w) {
  ops::XieluOptions o;
  const auto number = [&](std::string_view name) {
    return w.take_f32(name, w.shape(name).value_or(Shape{1})).host<float>()[0];
  };
  const auto softplus = [](float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); };
  if (w.has("beta")) o.beta = number("beta");
  if (w.has("eps")) o.eps = number("eps");
  o.alpha_p = softplus(number("alpha_p"));
  o.alpha_n = o.beta + softplus(number("alpha_n"));
  return o;
}

class Mlp final : public FeedForward {
 public:
  Mlp(const MlpOptions& o, const io::Weights& w)
      : options_(o),
        in_(inputs(o, w)),
        down_(w.at(o.down), o.intermediate_size, o.hidden_size, Parallel::Row, o.bias) {
    if (o.learned_xielu) xielu_ = xielu_of(w.at("act_fn"));
  }

  Tensor operator()(const Tensor& x, const Batch&) const override {  // [T, D] -> [T, D]
    if (!options_.gated) return down_(activated(in_.fused_output(x)));
    return down_(gate_times_up(x));
  }

  int64_t weight_bytes() const override { return in_.weight_bytes() + down_.weight_bytes(); }

 private:
  Tensor activated(const Tensor& x) const {
    return xielu_ ? ops::xielu(x, *xielu_) : ops::activate(x, options_.activation);
  }
  Tensor gate_times_up(const Tensor& x) const {  // [T, D] -> [T, F]
    const bool silu = options_.activation == ops::Activation::Silu && !xielu_;
    if (in_.fused()) {
      const Tensor both = in_.fused_output(x);  // [T, 2F]
      if (silu) return ops::silu_mul_fused(both);
      const int64_t f = options_.intermediate_size;
      return ops::mul(activated(both.slice(1, 0, f)), both.slice(1, f, 2 * f));
    }
    const auto parts = in_.heads(x, options_.intermediate_size);          // 2 x [T, 1, F]
    const Tensor gate = parts[0].view({-1, options_.intermediate_size});  // [T, F]
    const Tensor up = parts[1].view({-1, options_.intermediate_size});    // [T, F]
    if (silu) return ops::silu_mul(gate, up);
    return ops::mul(activated(gate), up);
  }

  MlpOptions options_;
  std::optional<ops::XieluOptions> xielu_;
  StackedLinear in_;
  Linear down_;
};

}  // namespace

std::unique_ptr<FeedForward> make_mlp(const MlpOptions& options, const io::Weights& w) {
  return std::make_unique<Mlp>(options, w);
}

}  // namespace mlxcel::nn
