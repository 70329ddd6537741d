// What recurrent mixers share: their states in the batch and the short convolution in front of
// most of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nn/causal_lm.h"
#include "nn/layers.h"
#include "ops/recurrent.h"

namespace mlxcel::nn {

/// Most channels of a mixer that a config may ask for.
inline constexpr int64_t kMaxInnerSize = int64_t{1} << 20;
/// Positions of a model that has no attention and whose config names no length.
inline constexpr int64_t kNoPositionLimit = int64_t{1} << 20;

/// Throws Unsupported, naming the device, when it has no kernels for recurrent layers.
void require_recurrent_kernels(const io::Weights& w);
/// The rows of every sequence of the batch and its state row.
std::vector<ops::StateSegment> state_segments(const Batch& batch);

/// Depthwise causal convolution over the tokens of a sequence. Its state is [K - 1, C].
class ShortConv {
 public:
  struct Options {
    int64_t channels = 0, taps = 4;
    Bias bias = Bias::None;
    bool silu = true;
    int state_index = 0;  // among the states of the layer
  };
  /// `w` holds `weight`, [C, 1, K] or [C, K, 1] or [C, K], and `bias`.
  ShortConv(const io::Weights& w, const Options& options, int layer);
  Tensor operator()(const Tensor& x, const Batch& batch) const;  // [T, C] -> [T, C]
  Shape state() const { return Shape{options_.taps - 1, options_.channels}; }
  int64_t weight_bytes() const { return weight_.bytes() + (bias_ ? bias_.bytes() : 0); }

 private:
  Options options_;
  int layer_;
  Tensor weight_;  // [K, C] f32
  Tensor bias_;    // [C] f32 or null
};

/// -exp(A_log) of a checkpoint as [N, D], from the tensor `A_log` [D, N], or from `A` [D, N], which
/// holds the result already (GGUF).
Tensor state_rates(const io::Weights& w, int64_t channels, int64_t states);
/// The same for one rate a head, [H].
Tensor head_rates(const io::Weights& w, int64_t heads);

/// The n values of a tensor as [n] f32, whatever its shape: files differ in axes of length 1.
Tensor flat_f32(const io::Weights& w, std::string_view leaf, int64_t n);
/// [n] f32, all `value`.
Tensor filled(int64_t n, float value);

}  // namespace mlxcel::nn
