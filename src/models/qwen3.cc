// Qwen 3: the pre-norm decoder of Llama with an RMSNorm over every query and key head before the
// rotation, and a head size of its own (`head_dim`, 128 when absent).
//
// Paper: Qwen3 (arXiv:2505.09388).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 32, .head_dim = 128});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  const std::vector<int32_t> windows = nn::qwen_windows(json, c.num_layers);
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    nn::GqaOptions& a = o.attention[layer];
    a.qkv_bias = a.o_bias = nn::bias_from(json, "attention_bias");
    a.qk_norm = nn::QkNorm{.norm = o.block.norm};
    a.window = windows[layer];
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3"};

}  // namespace

extern const Family kQwen3;
const Family kQwen3 = {"qwen3", "Qwen 3", "dense", kTypes, kTypes, {}, load_qwen3};

}  // namespace mlxcel::models
