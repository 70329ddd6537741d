// A decoder of gated delta rule mixers with gated full attention in every few layers: Qwen3-Next
// and its successors.
#pragma once

#include <memory>

#include "nn/dense_config.h"
#include "nn/feed_forward.h"
#include "nn/hybrid_decoder.h"

namespace mlxcel::nn {

/// Reads `c` (the text part of the config, whose sizes are `sizes`): layer_types or
/// full_attention_interval, the linear_* keys, rotary positions of a quarter of each head. Without
/// `feed_forward` every layer has the SwiGLU MLP named mlp.
///
/// Norms store gain - 1, but for MLX conversions, which add the 1; those are known by the layout of
/// their convolutions, [C, K, 1] instead of [C, 1, K].
std::unique_ptr<CausalLm> make_gated_delta_decoder(const io::Config& c, const DenseConfig& sizes,
                                                   const FeedForwardFactory& feed_forward,
                                                   const io::Weights& w);

}  // namespace mlxcel::nn
