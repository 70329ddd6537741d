#include "nn/moe_config.h"

#include <fmt/core.h>

#include <cmath>
#include <string>

#include "base/error.h"

namespace mlxcel::nn {
namespace {

constexpr int64_t kMaxExperts = 1 << 16;
constexpr int64_t kMaxWidth = int64_t{1} << 22;

int64_t size_at(const io::Config& c, std::string_view key, int64_t fallback, int64_t high) {
  return fallback > 0 ? c.size_or(key, fallback, 1, high) : c.size(key, 1, high);
}

}  // namespace

MoeOptions moe_options(const io::Config& json, const DenseConfig& c, const MoeKeys& keys) {
  MoeOptions o;
  o.hidden_size = c.hidden_size;
  o.num_experts = size_at(json, keys.num_experts_key, keys.num_experts, kMaxExperts);
  o.intermediate_size =
      size_at(json, keys.intermediate_size_key, keys.intermediate_size, kMaxWidth);
  o.router.top_k = static_cast<int32_t>(size_at(json, keys.top_k_key, keys.top_k, o.num_experts));
  return o;
}

MoeOptions grouped_sigmoid_moe(const io::Config& json, const DenseConfig& c, const MoeKeys& keys,
                               const GroupedDefaults& defaults) {
  MoeOptions o = moe_options(json, c, keys);
  o.router.score = ops::RouterOptions::Score::Sigmoid;
  o.router.num_groups =
      static_cast<int32_t>(json.size_or("n_group", defaults.groups, 1, o.num_experts));
  o.router.top_groups =
      static_cast<int32_t>(json.size_or("topk_group", defaults.top_groups, 1, o.router.num_groups));
  if (o.num_experts % o.router.num_groups != 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: n_group = {} does not divide {} = {}", json.source(),
                            o.router.num_groups, keys.num_experts_key, o.num_experts));
  }
  o.router.normalize = json.flag_or("norm_topk_prob", defaults.normalize);
  o.router.norm_eps = 1e-20F;
  o.router.scale = number_from(json, "routed_scaling_factor", defaults.scale);
  o.selection_bias = "gate.e_score_correction_bias";
  const int64_t shared = json.has("n_shared_experts")
                             ? json.size("n_shared_experts", 0, kMaxExperts)
                             : defaults.num_shared;
  o.shared_intermediate_size = shared * o.intermediate_size;
  return o;
}

float number_from(const io::Config& json, std::string_view key, float fallback) {
  const float value = json.f32_or(key, fallback);
  if (!std::isfinite(value)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} = {} must be finite", json.source(), key, value));
  }
  return value;
}

std::vector<bool> sparse_from(const io::Config& json, const DenseConfig& c, int64_t fallback) {
  const int64_t first = json.size_or("first_k_dense_replace", fallback, 0, int64_t{1} << 20);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < c.num_layers; ++layer) sparse.push_back(layer >= first);
  return sparse;
}

std::vector<bool> qwen_sparse_layers(const io::Config& json, const DenseConfig& c) {
  const int64_t step = json.size_or("decoder_sparse_step", 1, 1, int64_t{1} << 20);
  std::vector<bool> sparse;
  for (int64_t layer = 0; layer < c.num_layers; ++layer) sparse.push_back((layer + 1) % step == 0);
  for (const int64_t layer : json.i64s("mlp_only_layers")) {
    if (layer >= 0 && layer < c.num_layers) sparse[static_cast<size_t>(layer)] = false;
  }
  return sparse;
}

FeedForwardFactory moe_layers(std::vector<bool> sparse, MoeOptions moe, MlpOptions mlp,
                              std::string_view name) {
  return [sparse = std::move(sparse), moe = std::move(moe), mlp, at = std::string(name)](
             const io::Weights& layer_weights, int layer) {
    const io::Weights w = layer_weights.at(at);
    return sparse.at(static_cast<size_t>(layer)) ? make_moe(moe, w) : make_mlp(mlp, w);
  };
}

}  // namespace mlxcel::nn
