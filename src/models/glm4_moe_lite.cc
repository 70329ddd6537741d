// GLM 4.7 Flash: latent attention (nn/latent_attention.h) with mixtures routed as DeepSeek V3 does
// in the layers that `mlp_layer_types` calls sparse (all but the first unless it is given).
//
// https://huggingface.co/zai-org/GLM-4.7-Flash

#include <array>

#include "base/error.h"
#include "models/family.h"
#include "nn/latent_attention.h"
#include "nn/moe_config.h"

#include <fmt/core.h>

namespace mlxcel::models {
namespace {

std::vector<bool> sparse_layers(const io::Config& json, const nn::DenseConfig& c) {
  if (!json.has("mlp_layer_types")) return nn::sparse_from(json, c, 1);
  std::vector<bool> sparse;
  for (const Json& type : json.json().find("mlp_layer_types")->as_array()) {
    const std::string& name = type.as_string();
    if (name != "dense" && name != "sparse") {
      throw Error(Code::Unsupported, fmt::format("{}: mlp_layer_types has \"{}\", which is not "
                                                 "supported (known: dense, sparse)",
                                                 json.source(), name));
    }
    sparse.push_back(name == "sparse");
  }
  if (static_cast<int64_t>(sparse.size()) != c.num_layers) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: mlp_layer_types has {} entries for {} layers", json.source(),
                            sparse.size(), c.num_layers));
  }
  return sparse;
}

LoadedModel load_glm4_moe_lite(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(json, {.max_positions = 202752, .head_dim = 64, .norm_eps = 1e-5F});
  nn::DenseOptions o = nn::dense_options(c);
  json.expect("hidden_act", "silu");
  const nn::LatentOptions latent =
      nn::latent_options(json, c, {.q_lora_rank = 768, .nope_dim = 192, .value_dim = 256});
  const nn::MoeOptions moe = nn::grouped_sigmoid_moe(json, c,
                                                     {.num_experts_key = "n_routed_experts",
                                                      .num_experts = 64,
                                                      .top_k = 4,
                                                      .intermediate_size = 1536},
                                                     {.scale = 1.8F});
  o.feed_forward = nn::moe_layers(sparse_layers(json, c), moe, o.mlp);
  return {.lm = nn::make_latent_decoder(c, o, latent, w)};
}

constexpr std::array<std::string_view, 1> kTypes = {"glm4_moe_lite"};

}  // namespace

extern const Family kGlm4MoeLite;
const Family kGlm4MoeLite = {"glm4_moe_lite",   "GLM 4.7 Flash", "moe", kTypes, {}, {},
                             load_glm4_moe_lite};

}  // namespace mlxcel::models
