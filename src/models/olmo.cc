// OLMo 1, 2 and 3.
//
//   OLMo      pre-norm with a LayerNorm that has no parameters; queries, keys and values may be
//             clamped to [-clip_qkv, clip_qkv]
//   OLMo 2    RMSNorms on what attention and MLP add, and over the whole query and key projections
//   OLMo 3    and three sliding layers to a full one; only the full ones scale their positions
//
// Papers: OLMo (arXiv:2402.00838), OLMo 2 (arXiv:2501.00656).

#include <array>

#include "models/family.h"
#include "nn/dense_decoder.h"

namespace mlxcel::models {
namespace {

void set_biases(nn::DenseOptions& o, const io::Config& json) {
  for (nn::GqaOptions& layer : o.attention) {
    layer.qkv_bias = layer.o_bias = nn::bias_from(json, "attention_bias");
  }
}

LoadedModel load_olmo(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048});
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  o.block.norm = {.kind = nn::NormOptions::Kind::LayerNorm, .eps = 1e-5F, .has_gain = false};
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  set_biases(o, json);
  for (nn::GqaOptions& layer : o.attention) {
    layer.clip_qkv = nn::positive_or_null(json, "clip_qkv", 0.0F);
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

nn::DenseOptions olmo2_options(const io::Config& json, const nn::DenseConfig& c) {
  nn::DenseOptions o = nn::dense_options(c, nn::whole_head_rope(json, c));
  o.block.names = nn::kPostNorms;
  o.mlp.activation = nn::activation_from(json, "hidden_act", "silu");
  set_biases(o, json);
  for (nn::GqaOptions& layer : o.attention) {
    layer.qk_norm = nn::QkNorm{.span = nn::QkNorm::Span::Projection, .norm = o.block.norm};
  }
  return o;
}

LoadedModel load_olmo2(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048, .norm_eps = 1e-5F});
  return {.lm = nn::make_dense_decoder(c, olmo2_options(json, c), w)};
}

LoadedModel load_olmo3(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 2048, .norm_eps = 1e-5F});
  nn::DenseOptions o = olmo2_options(json, c);
  const nn::Rope plain(nn::RopeConfig::from(json, c.head_dim, c.max_positions, "sliding_attention",
                                            {.flat_settings = false}));
  const int32_t window = nn::window_from(json, "sliding_window", 4096);
  const std::vector<bool> sliding = nn::sliding_layers(json, c.num_layers, 4);
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    if (!sliding[layer]) continue;
    o.attention[layer].window = window;
    o.attention[layer].rope = plain;
  }
  return {.lm = nn::make_dense_decoder(c, o, w)};
}

constexpr std::array<std::string_view, 1> kOlmoTypes = {"olmo"};
constexpr std::array<std::string_view, 1> kOlmo2Types = {"olmo2"};
constexpr std::array<std::string_view, 1> kOlmo3Types = {"olmo3"};

}  // namespace

extern const Family kOlmo;
const Family kOlmo = {"olmo", "OLMo 1", "dense", kOlmoTypes, {}, {}, load_olmo};
extern const Family kOlmo2;
const Family kOlmo2 = {"olmo2", "OLMo 2", "dense", kOlmo2Types, kOlmo2Types, {}, load_olmo2};
extern const Family kOlmo3;
const Family kOlmo3 = {"olmo3", "OLMo 3", "dense", kOlmo3Types, {}, {}, load_olmo3};

}  // namespace mlxcel::models
