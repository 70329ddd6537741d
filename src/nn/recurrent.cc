#include "nn/recurrent.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/op_table.h"

namespace mlxcel::nn {
namespace {

/// A matrix [rows, cols] as [cols, rows].
Tensor transposed(const Tensor& x, int64_t rows, int64_t cols) {
  Tensor out = Tensor::empty(Shape{cols, rows}, DType::F32);
  const auto from = x.host<float>();
  auto to = out.host_mut<float>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      to[static_cast<size_t>(c * rows + r)] = from[static_cast<size_t>(r * cols + c)];
    }
  }
  return out;
}

Tensor rates(const io::Weights& w, int64_t n) {
  if (w.has("A")) return flat_f32(w, "A", n);
  Tensor out = Tensor::empty(Shape{n}, DType::F32);
  const Tensor stored = flat_f32(w, "A_log", n);
  std::ranges::transform(stored.host<float>(), out.host_mut<float>().begin(),
                         [](float a) { return -std::exp(a); });
  return out;
}

}  // namespace

void require_recurrent_kernels(const io::Weights& w) {
  const DeviceKind kind = w.device().kind;
  if (ops::op_table(kind).recurrent.causal_conv1d != nullptr) return;
  throw Error(Code::Unsupported,
              "recurrent layers have no kernels for this device; set "
              "MLXCEL_DEVICE=cpu to run this model on the CPU");
}

std::vector<ops::StateSegment> state_segments(const Batch& batch) {
  std::vector<ops::StateSegment> out;
  for (const Segment& s : batch.segments) out.push_back({s.row, s.q_len, s.cache_row});
  return out;
}

ShortConv::ShortConv(const io::Weights& w, const Options& options, int layer)
    : options_(options), layer_(layer) {
  require_recurrent_kernels(w);
  const int64_t channels = options.channels, taps = options.taps;
  const std::vector<int64_t> stored = w.dims("weight");
  Shape shape{channels, 1, taps};
  for (const Shape& other : {Shape{channels, taps, 1}, Shape{channels, taps}}) {
    if (std::ranges::equal(stored, other.dims())) shape = other;
  }
  weight_ = transposed(w.take_f32("weight", shape), channels, taps);
  if (options.bias == Bias::Required || (options.bias == Bias::IfPresent && w.has("bias"))) {
    bias_ = w.take_f32("bias", Shape{channels}).to_f32();
  }
}

Tensor ShortConv::operator()(const Tensor& x, const Batch& batch) const {
  MLXCEL_CHECK(batch.caches != nullptr, "a convolution needs the states of the batch");
  Tensor state = batch.caches->state(layer_, options_.state_index);
  return ops::causal_conv1d(x, weight_, bias_, options_.silu, state, state_segments(batch));
}

Tensor state_rates(const io::Weights& w, int64_t channels, int64_t states) {
  return transposed(rates(w, channels * states), channels, states);
}

Tensor head_rates(const io::Weights& w, int64_t heads) { return rates(w, heads); }

Tensor flat_f32(const io::Weights& w, std::string_view leaf, int64_t n) {
  const std::vector<int64_t> dims = w.dims(leaf);
  if (dims.empty() || Shape(dims).numel() != n) return w.take_f32(leaf, Shape{n});
  return w.take_f32(leaf, Shape(dims)).to_f32().view({n});
}

Tensor filled(int64_t n, float value) {
  Tensor t = Tensor::empty(Shape{n}, DType::F32);
  std::ranges::fill(t.host_mut<float>(), value);
  return t;
}

}  // namespace mlxcel::nn
