// Qwen 3: the block of nn/gqa_block.h with an RMSNorm over every query and key head before the
// rotation, and a head size of its own (`head_dim`, 128 when absent).
//
// Paper: Qwen3 (arXiv:2505.09388).

#include <array>

#include "models/family.h"
#include "nn/gqa_block.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 32, .head_dim = 128});
  const nn::PreNormOptions options{.qkv_bias = nn::bias_from(json, "attention_bias"),
                                   .o_bias = nn::bias_from(json, "attention_bias"),
                                   .qk_norm = true,
                                   .windows = nn::qwen_windows(json, c.num_layers)};
  return {.lm = nn::make_pre_norm_decoder(c, options, json, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3"};

}  // namespace

extern const Family kQwen3;
const Family kQwen3 = {"qwen3", "Qwen 3", "dense", kTypes, kTypes, {}, load_qwen3};

}  // namespace mlxcel::models
