// EXAONE 4: norms on what attention and MLP add, and of every query and key head. The 32B model has
// sliding layers with rotary positions and full layers without positions.
//
// Report: EXAONE 4.0 (arXiv:2507.11407).

#include <fmt/core.h>

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

/// The schedule of `layer_types`, or of `sliding_window_pattern`: "LLLG" repeats with the last
/// layer global, 4 makes every fourth layer global.
std::vector<bool> schedule(const io::Config& json, int64_t num_layers) {
  const Json* pattern = json.json().find("sliding_window_pattern");
  const bool text = pattern != nullptr && pattern->is_string();
  if (json.has("layer_types") || !text) {
    const int64_t every = text ? 4 : json.size_or("sliding_window_pattern", 4, 1, 4096);
    return nn::sliding_layers(json, num_layers, every);
  }
  const std::string letters = json.str("sliding_window_pattern");
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const char letter =
        letters.empty() ? '?' : letters[static_cast<size_t>(layer) % letters.size()];
    if (letter != 'L' && letter != 'G') {
      throw Error(Code::Unsupported,
                  fmt::format("{}: sliding_window_pattern = \"{}\" is not supported: it may hold L "
                              "and G",
                              json.source(), letters));
    }
    sliding.push_back(letter == 'L' && layer + 1 < num_layers);
  }
  return sliding;
}

LoadedModel load_exaone4(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048, .num_kv_heads = 32, .norm_eps = 1e-5F});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  o.block.names = nn::kPostNorms;
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  for (nn::GqaOptions& layer : o.attention) layer.qk_norm = nn::QkNorm{.norm = o.block.norm};
  const int32_t window = nn::window_from(json, "sliding_window", 4096);
  if (window > 0) {
    const std::vector<bool> sliding = schedule(json, c.num_layers);
    for (size_t layer = 0; layer < sliding.size(); ++layer) {
      if (sliding[layer]) {
        o.attention[layer].window = window;
      } else {
        o.attention[layer].rope.reset();
      }
    }
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"exaone4"};

}  // namespace

extern const Family kExaone4;
const Family kExaone4 = {"exaone4", "EXAONE 4", "dense", kTypes, kTypes, {}, load_exaone4};

}  // namespace mlxcel::models
