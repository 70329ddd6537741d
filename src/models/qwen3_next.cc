// Qwen3-Next: three gated delta rule layers to one of gated full attention
// (nn/gated_delta_decoder.h). Sparse layers route every token to a few of many experts by a softmax
// over all, and add a shared expert multiplied by the sigmoid of a gate of its own.
//
// Described at https://qwen.ai/blog; the mixer is that of Gated Delta Networks (arXiv:2412.06464).

#include <array>

#include "models/family.h"
#include "nn/gated_delta_decoder.h"
#include "nn/moe_config.h"

namespace mlxcel::models {
namespace {

LoadedModel load_qwen3_next(const io::Config& json, const io::Weights& w) {
  const nn::DenseConfig c(
      json,
      {.max_positions = 32768, .num_kv_heads = 2, .head_dim = 256, .intermediate_size = 5632});
  nn::FeedForwardFactory feed_forward;
  if (json.i64_or("num_experts", 512) > 0) {
    nn::MoeOptions moe =
        nn::moe_options(json, c, {.num_experts = 512, .top_k = 10, .intermediate_size = 512});
    moe.router.normalize = json.flag_or("norm_topk_prob", true);
    moe.shared_intermediate_size = json.size_or("shared_expert_intermediate_size", 512, 1, 1 << 22);
    moe.shared_name = "shared_expert";
    moe.shared_gate = "shared_expert_gate";
    const nn::MlpOptions mlp{.hidden_size = c.hidden_size,
                             .intermediate_size = c.intermediate_size,
                             .bias = nn::Bias::None};
    feed_forward = nn::moe_layers(nn::qwen_sparse_layers(json, c), moe, mlp);
  }
  return {.lm = nn::make_gated_delta_decoder(json, c, feed_forward, w)};
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_next", "qwen3next"};
constexpr std::array<io::Rename, 1> kNames = {{{"mtp.*", ""}}};

}  // namespace

extern const Family kQwen3Next;
const Family kQwen3Next = {"qwen3_next", "Qwen3-Next", "hybrid_ssm",    kTypes,
                           {},           kNames,       load_qwen3_next, PrefixSharing::Snapshots};

}  // namespace mlxcel::models
