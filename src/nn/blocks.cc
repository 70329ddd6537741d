#include <array>

#include "nn/layers.h"

namespace mlxcel::nn {
namespace {

StackedLinear gate_and_up(const io::Weights& w, int64_t hidden_size, int64_t intermediate_size,
                          Bias bias) {
  const std::array<StackedLinear::Part, 2> parts = {{
      {.weights = w.at("gate_proj"), .out_features = intermediate_size, .bias = bias},
      {.weights = w.at("up_proj"), .out_features = intermediate_size, .bias = bias},
  }};
  return {parts, hidden_size, Parallel::Column};
}

}  // namespace

RmsNorm::RmsNorm(const io::Weights& w, int64_t dim, float eps, float offset)
    : gain_(w.take_f32("weight", Shape{dim}).to(w.device())), eps_(eps), offset_(offset) {}

Tensor RmsNorm::operator()(const Tensor& x) const { return ops::rms_norm(x, gain_, eps_, offset_); }

ops::AddNorm RmsNorm::add(const Tensor& x, const Tensor& delta) const {
  return ops::add_rms_norm(x, delta, gain_, eps_, offset_);
}

SwiGlu::SwiGlu(const io::Weights& w, int64_t hidden_size, int64_t intermediate_size, Bias bias)
    : gate_up_(gate_and_up(w, hidden_size, intermediate_size, bias)),
      intermediate_size_(intermediate_size),
      down_(w.at("down_proj"), intermediate_size, hidden_size, Parallel::Row, bias) {}

Tensor SwiGlu::operator()(const Tensor& x) const {  // [T, D] -> [T, D]
  if (gate_up_.fused()) return down_(ops::silu_mul_fused(gate_up_.fused_output(x)));
  const auto parts = gate_up_.heads(x, intermediate_size_);     // 2 x [T, 1, F]
  const Tensor gate = parts[0].view({-1, intermediate_size_});  // [T, F]
  const Tensor up = parts[1].view({-1, intermediate_size_});    // [T, F]
  return down_(ops::silu_mul(gate, up));
}

int64_t SwiGlu::weight_bytes() const { return gate_up_.weight_bytes() + down_.weight_bytes(); }

}  // namespace mlxcel::nn
