// Qwen 2 and 2.5: the block of nn/gqa_block.h with a bias on the query, key and value projections.
// With `use_sliding_window`, layers from `max_window_layers` on (or those that `layer_types` names)
// see a window of `sliding_window` tokens.
//
// Papers: Qwen2 (arXiv:2407.10671), Qwen2.5 (arXiv:2412.15115).

#include <array>

#include "models/family.h"
#include "nn/gqa_block.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 32});
  const nn::PreNormOptions options{.qkv_bias = nn::Bias::Required,
                                   .windows = nn::qwen_windows(json, c.num_layers)};
  return {.lm = nn::make_pre_norm_decoder(c, options, json, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen2"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2 = {"qwen2", "Qwen 2 / 2.5", "dense", kTypes, kTypes, {}, load_qwen2};

}  // namespace mlxcel::models
