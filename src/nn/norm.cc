#include "nn/norm.h"

#include <algorithm>

#include "base/error.h"

namespace mlxcel::nn {
namespace {

Tensor constant(int64_t n, float value) {
  Tensor t = Tensor::empty(Shape{n}, DType::F32);
  std::ranges::fill(t.host_mut<float>(), value);
  return t;
}

/// A copy of a gain with the offset added: the same rounding as adding it at every use.
Tensor with_offset(const Tensor& stored, float offset) {
  Tensor gain = stored.to_f32();
  for (float& g : gain.host_mut<float>()) g += offset;
  return gain;
}

}  // namespace

Norm::Norm(const io::Weights& w, int64_t dim, const NormOptions& options)
    : options_(options),
      gain_(options.has_gain ? with_offset(w.take_f32("weight", Shape{dim}), options.offset)
                             : constant(dim, 1.0F)) {
  gain_ = gain_.to(w.device());
  if (options.has_bias) bias_ = w.take_f32("bias", Shape{dim}).to(w.device());
}

Tensor Norm::operator()(const Tensor& x) const {
  if (options_.kind == NormOptions::Kind::Rms) return ops::rms_norm(x, gain_, options_.eps);
  return ops::layer_norm(x, gain_, bias_, options_.eps);
}

ops::AddNorm Norm::add(const Tensor& x, const Tensor& delta) const {
  if (options_.kind == NormOptions::Kind::Rms) {
    return ops::add_rms_norm(x, delta, gain_, options_.eps);
  }
  ops::AddNorm out{ops::add(x, delta), {}};
  out.normed = ops::layer_norm(out.sum, gain_, bias_, options_.eps);
  return out;
}

HeadNorm::HeadNorm(const io::Weights& w, int64_t num_heads, int64_t head_dim,
                   const NormOptions& options)
    : options_(options), ones_(constant(head_dim, 1.0F)) {
  MLXCEL_CHECK(options.has_gain && !options.has_bias, "a norm by head has a gain and no bias");
  if (w.has("weight")) {
    gain_ = with_offset(w.take_f32("weight", Shape{num_heads, head_dim}), options.offset);
    gain_ = gain_.view({num_heads * head_dim}).to(w.device());
    ones_ = ones_.to(w.device());
    return;
  }
  gain_ = Tensor::empty(Shape{num_heads * head_dim}, DType::F32);
  auto out = gain_.host_mut<float>().begin();
  for (int64_t head = 0; head < num_heads; ++head) {
    const Tensor one = w.at("norms", head).take_f32("weight", Shape{head_dim});
    for (const float g : one.host<float>()) *out++ = g + options.offset;
  }
  gain_ = gain_.to(w.device());
  ones_ = ones_.to(w.device());
}

Tensor HeadNorm::operator()(const Tensor& x) const {
  const Tensor normed = options_.kind == NormOptions::Kind::Rms
                            ? ops::rms_norm(x, ones_, options_.eps)
                            : ops::layer_norm(x, ones_, Tensor(), options_.eps);
  return ops::mul_row(normed, gain_);
}

}  // namespace mlxcel::nn
