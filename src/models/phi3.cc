// Phi 3, 3.5 and 4: Llama's decoder with fused projections. Longer models scale every rotary
// frequency by a factor of its own: one list up to the original length, another beyond.
//
// Papers: Phi-3 (arXiv:2404.14219), LongRoPE (arXiv:2402.13753).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

LoadedModel load_phi3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 4096, .norm_eps = 1e-5F});
  const auto rotary = nn::RopeConfig::from(json, c.head_dim, c.max_positions, "full_attention");
  nn::DenseOptions o = nn::dense_options(c, rotary);
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  for (nn::GqaOptions& layer : o.attention) {
    layer.window = nn::window_from(json, "sliding_window", 0);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"phi3"};

}  // namespace

extern const Family kPhi3;
const Family kPhi3 = {"phi3", "Phi 3 / 3.5 / 4", "dense", kTypes, kTypes, {}, load_phi3};

}  // namespace mlxcel::models
