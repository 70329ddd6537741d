// One residual block: a mixer that looks at other tokens, a feed-forward part that does not, and
// norms before, after or around either.
//
//   pre-norm    a = x + Mix(N(x))        y = a + F(N(a))
//   post-norm   a = x + N(Mix(x))        y = a + N(F(a))
//   sandwich    a = x + N(Mix(N(x)))     y = a + N(F(N(a)))
//   parallel    y = x + Mix(N(x)) + F(N(x))
#pragma once

#include <memory>
#include <string_view>

#include "nn/decoder.h"
#include "nn/feed_forward.h"
#include "nn/gqa_attention.h"
#include "nn/layer_inputs.h"
#include "nn/norm.h"

namespace mlxcel::nn {

/// Names of a block's norms in the checkpoint; an empty one is not there.
struct BlockNorms {
  std::string_view mixer_in{}, mixer_out{}, ff_in{}, ff_out{};
};
inline constexpr BlockNorms kPreNorms = {"input_layernorm", "", "post_attention_layernorm", ""};
inline constexpr BlockNorms kPostNorms = {"", "post_attention_layernorm", "",
                                          "post_feedforward_layernorm"};
inline constexpr BlockNorms kSandwichNorms = {"input_layernorm", "post_attention_layernorm",
                                              "pre_feedforward_layernorm",
                                              "post_feedforward_layernorm"};

struct BlockOptions {
  int64_t hidden_size = 0;
  NormOptions norm{};
  BlockNorms names = kPreNorms;
  /// Mixer and feed-forward part read the same x; without `ff_in` also the same normed x.
  bool parallel = false;
  float residual_multiplier = 1.0F;  // of what either part adds
  LayerInputOptions layer_inputs{};  // of the token, added after the feed-forward part
  int layer = 0;                     // which of them is this block's
  bool output_scale = false;         // the result is multiplied by the checkpoint's layer_scalar
};

/// A block of these parts; either may be null, and then neither it nor its norms are there.
std::unique_ptr<Block> make_block(const BlockOptions& options, const io::Weights& w,
                                  std::unique_ptr<Mixer> mixer,
                                  std::unique_ptr<FeedForward> feed_forward);

}  // namespace mlxcel::nn
