// Qwen 2 and 2.5: the pre-norm decoder of Llama with a bias on the query, key and value
// projections. With `use_sliding_window`, layers from `max_window_layers` on (or those that
// `layer_types` names) see a window of `sliding_window` tokens.
//
// Papers: Qwen2 (arXiv:2407.10671), Qwen2.5 (arXiv:2412.15115).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 32768, .num_kv_heads = 32});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  json.expect("hidden_act", "silu");
  const std::vector<int32_t> windows = nn::qwen_windows(json, c.num_layers);
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    o.attention[layer].qkv_bias = nn::Bias::Required;
    o.attention[layer].window = windows[layer];
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen2"};

}  // namespace

extern const Family kQwen2;
const Family kQwen2 = {"qwen2", "Qwen 2 / 2.5", "dense", kTypes, kTypes, {}, load_qwen2};

}  // namespace mlxcel::models
