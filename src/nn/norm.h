// The norms of text decoders under one type, so that blocks do not know which one a family uses.
#pragma once

#include <cstdint>

#include "io/weights.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

namespace mlxcel::nn {

struct NormOptions {
  enum class Kind : uint8_t { Rms, LayerNorm } kind = Kind::Rms;
  float eps = 1e-6F;
  float offset = 0.0F;    // added to the gain: checkpoints of some families store gain - 1
  bool has_gain = true;   // else all ones, and the checkpoint holds nothing
  bool has_bias = false;  // LayerNorm only
};

/// y = (x - mean) / sqrt(var + eps) * gain + bias over the last axis, without the mean and the bias
/// for Kind::Rms. `weight` and `bias` are read from the checkpoint.
class Norm {
 public:
  Norm(const io::Weights& w, int64_t dim, const NormOptions& options);
  Tensor operator()(const Tensor& x) const;  // [..., dim] -> [..., dim]
  /// sum = x + delta, normed = norm(sum).
  ops::AddNorm add(const Tensor& x, const Tensor& delta) const;
  int64_t weight_bytes() const { return gain_.bytes() + (bias_ ? bias_.bytes() : 0); }

 private:
  NormOptions options_;
  Tensor gain_;  // [dim] f32 with the offset added
  Tensor bias_;  // [dim] f32 or null
};

/// A norm of every head by itself whose gain differs from head to head.
class HeadNorm {
 public:
  /// gain is [num_heads, head_dim] in the tensor `weight`, or one `norms.<head>.weight` [head_dim]
  /// for each head.
  HeadNorm(const io::Weights& w, int64_t num_heads, int64_t head_dim, const NormOptions& options);
  Tensor operator()(const Tensor& x) const;  // [T, H, Dh] -> [T, H, Dh]
  int64_t weight_bytes() const { return gain_.bytes(); }

 private:
  NormOptions options_;
  Tensor ones_;  // [Dh]
  Tensor gain_;  // [H * Dh] f32 with the offset added
};

}  // namespace mlxcel::nn
