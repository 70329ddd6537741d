// What decoders with mixtures of experts read from config.json, and their feed-forward factories.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "io/config.h"
#include "nn/dense_decoder.h"
#include "nn/moe.h"

namespace mlxcel::nn {

/// The keys of the sizes, and their values when absent (0: the key must be there).
struct MoeKeys {
  std::string_view num_experts_key = "num_experts", top_k_key = "num_experts_per_tok",
                   intermediate_size_key = "moe_intermediate_size";
  int64_t num_experts = 0, top_k = 0, intermediate_size = 0;
};

/// Sizes of a mixture, routed by a softmax over all experts. Throws InvalidArgument naming the key.
MoeOptions moe_options(const io::Config& json, const DenseConfig& c, const MoeKeys& keys);

/// The routing of DeepSeek V3 (arXiv:2412.19437) from its keys: sigmoid scores, the best
/// `topk_group` of `n_group` groups, a selection bias, `norm_topk_prob`, `routed_scaling_factor`,
/// and `n_shared_experts` of the routed experts' size.
struct GroupedDefaults {
  int64_t num_shared = 1;
  bool normalize = true;
  float scale = 1.0F;
  int64_t groups = 1, top_groups = 1;
};
MoeOptions grouped_sigmoid_moe(const io::Config& json, const DenseConfig& c, const MoeKeys& keys,
                               const GroupedDefaults& defaults);

/// A finite number at `key`; `fallback` when it is absent. Throws InvalidArgument for others.
float number_from(const io::Config& json, std::string_view key, float fallback);

/// Layers from `first_k_dense_replace` on are sparse.
std::vector<bool> sparse_from(const io::Config& json, const DenseConfig& c, int64_t fallback);
/// Qwen's rule: every `decoder_sparse_step`-th layer, but none of `mlp_only_layers`.
std::vector<bool> qwen_sparse_layers(const io::Config& json, const DenseConfig& c);

/// The mixture in sparse layers, the MLP in the others; both lie at `name` in their layer.
FeedForwardFactory moe_layers(std::vector<bool> sparse, MoeOptions moe, MlpOptions mlp,
                              std::string_view name = "mlp");

}  // namespace mlxcel::nn
