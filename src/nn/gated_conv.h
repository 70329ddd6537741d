// The gated short convolution of LFM2 (arXiv:2511.23404): B, C, u = in(x); y = out(C * conv(B u)).
#pragma once

#include "nn/gqa_attention.h"
#include "nn/recurrent.h"

namespace mlxcel::nn {

struct GatedConvOptions {
  int64_t hidden_size = 0, taps = 3;
  Bias bias = Bias::None;  // of the projections and of the convolution
  CacheSpec cache() const { return CacheSpec::recurrent({Shape{taps - 1, hidden_size}}); }
};

class GatedConvMixer final : public Mixer {
 public:
  /// `w` holds in_proj, conv and out_proj.
  GatedConvMixer(const GatedConvOptions& o, const io::Weights& w, int layer)
      : options_(o),
        in_(w.at("in_proj"), o.hidden_size, 3 * o.hidden_size, Parallel::Column, o.bias),
        out_(w.at("out_proj"), o.hidden_size, o.hidden_size, Parallel::Row, o.bias),
        conv_(w.at("conv"),
              {.channels = o.hidden_size, .taps = o.taps, .bias = o.bias, .silu = false}, layer) {}

  Tensor operator()(const Tensor& x, const Batch& batch) const override {  // [T, D] -> [T, D]
    const int64_t d = options_.hidden_size;
    const Tensor all = in_(x);  // [T, 3D]
    const Tensor gated = ops::mul(all.slice(1, 0, d), all.slice(1, 2 * d, 3 * d));
    return out_(ops::mul(all.slice(1, d, 2 * d), conv_(gated, batch)));
  }

  int64_t weight_bytes() const override {
    return in_.weight_bytes() + out_.weight_bytes() + conv_.weight_bytes();
  }

 private:
  GatedConvOptions options_;
  Linear in_, out_;
  ShortConv conv_;
};

}  // namespace mlxcel::nn
