// From what was asked for to what is done: defaults, ranges, and the budget of the cache.
#include <fmt/core.h>

#include <algorithm>

#include "base/env.h"
#include "base/log.h"
#include "engine/engine_core.h"
#include "tensor/device.h"

namespace mlxcel::engine {
namespace {

// Longest prompt piece of the adaptive rule; see chunk_tokens().
constexpr int32_t kLongestPiece = 2048;
// A budget below this many tokens of one sequence would be of no use; `auto` never goes there.
constexpr int32_t kFloorTokens = 512;

template <class T>
void check_range(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return;
  throw Error(Code::InvalidArgument,
              fmt::format("{}: {} is out of range, expected {} to {}", name, value, low, high));
}

void check_options(const EngineOptions& o) {
  check_range("max batch size", o.max_batch, 1, 4096);
  check_range("max queue depth", o.max_queue_depth, 0, 1 << 20);
  check_range("context size", o.context_tokens, 0, 1 << 30);
  check_range("prefill chunk size", o.prefill_chunk_tokens.value_or(0), 0, 1 << 30);
  check_range("prefill grant interval", o.prefill_grant_interval, 0, 1 << 30);
  check_range("max batch prefill", o.max_batch_prefill, 1, 4096);
  check_range("max batch prefill tokens", o.max_batch_prefill_tokens, 0, 1 << 30);
  check_range("KV cache budget", o.kv_budget_bytes.value_or(0), int64_t{0}, int64_t{1} << 50);
  check_range("KV admission watermark", o.admission_watermark, 0.0, 0.5);
  check_range("max KV size", o.max_kv_tokens, 0, 1 << 30);
  check_range("prompt cache capacity", o.prefix_cache_bytes, int64_t{0}, int64_t{1} << 50);
  check_range("prompt cache entries", o.prefix_cache_max_entries, 0, 1 << 30);
  check_range("prompt cache minimum prefix", o.prefix_cache_min_tokens, 0, 1 << 30);
  check_range("prompt cache snapshot capacity", o.prefix_snapshot_bytes, int64_t{0},
              int64_t{1} << 50);
  check_range("prompt cache snapshot entries", o.prefix_snapshot_max_entries, 0, 1 << 30);
}

/// Bounds what layers of full attention keep, as if they had a sliding window of that size.
std::vector<nn::CacheSpec> bounded(std::vector<nn::CacheSpec> caches, int32_t max_kv_tokens) {
  for (nn::CacheSpec& c : caches) {
    const bool keeps_everything =
        c.kind == nn::CacheSpec::Kind::Full || c.kind == nn::CacheSpec::Kind::Latent;
    if (max_kv_tokens == 0 || !keeps_everything) continue;
    c.kind = nn::CacheSpec::Kind::Window;
    c.window = max_kv_tokens;
  }
  return caches;
}

int32_t wanted_context(const nn::ModelSpec& spec, const EngineOptions& o) {
  int64_t context = spec.max_positions > 0 ? spec.max_positions : 4096;
  if (o.context_tokens > 0) {
    if (o.context_tokens > context) {
      log::warn("context of {} tokens: the model was made for {}", o.context_tokens, context);
    }
    context = o.context_tokens;
  }
  return static_cast<int32_t>(std::min<int64_t>(context, 1 << 30));
}

// Bytes of intermediate results of the largest step: a handful of hidden-size and FFN-size rows a
// token, and the logits.
int64_t activation_bytes(const nn::ModelSpec& spec, int64_t step_tokens, int64_t max_batch) {
  const int64_t per_token = 8 * spec.hidden_size + 3 * spec.intermediate_size;
  return size_of(DType::F32) * (step_tokens * per_token + max_batch * spec.vocab_size);
}

int64_t choose_budget(const nn::ModelSpec& spec, const ResolvedOptions& r) {
  const EngineOptions& o = r.options;
  if (r.layout.groups.empty()) return 0;
  const bool on_device = spec.device.kind != DeviceKind::Cpu;
  int64_t block = 0;
  for (const BlockGroup& g : r.layout.groups) block += g.block_bytes;
  const int64_t one = r.layout.sequence_bytes(r.context_tokens, r.step_tokens) + block;
  const int64_t all = one * (o.max_batch + 1) + (o.prefix_cache ? o.prefix_cache_bytes : 0);
  if (o.kv_budget_bytes && *o.kv_budget_bytes > 0) return *o.kv_budget_bytes;
  if (o.kv_budget_bytes) return on_device ? all : std::max(all, total_memory_bytes());  // unbounded
  const int64_t floor = r.layout.sequence_bytes(std::min(r.context_tokens, kFloorTokens),
                                                std::min(r.step_tokens, kFloorTokens)) +
                        block;
  // On a device every group takes memory for the whole budget at once.
  const int64_t available =
      on_device ? device_runtime(spec.device).free_bytes() / std::ssize(r.layout.groups)
                : available_memory_bytes();
  return auto_kv_budget(available, activation_bytes(spec, r.step_tokens, o.max_batch), all, floor);
}

// The longest sequence that alone fits the budget.
int32_t fitting_context(const ResolvedOptions& r) {
  int64_t block = 0;
  for (const BlockGroup& g : r.layout.groups) block += g.block_bytes;
  int32_t low = 0;
  int32_t high = r.context_tokens;
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    // One block more: a forked block exists twice for a moment.
    const int64_t bytes = r.layout.sequence_bytes(middle, std::min(r.step_tokens, middle)) + block;
    if (bytes <= r.budget_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

ResolvedOptions resolve_options(const nn::CausalLm& model, const EngineOptions& options) {
  check_options(options);
  const nn::ModelSpec& spec = model.spec();
  ResolvedOptions r;
  r.options = options;
  r.device = spec.device;
  if (!options.batching) r.options.max_batch = 1;
  r.policy = {.prefill_chunk_tokens = options.prefill_chunk_tokens,
              .prefill_grant_interval = options.prefill_grant_interval,
              .max_batch_prefill = options.max_batch_prefill,
              .max_batch_prefill_tokens = options.max_batch_prefill_tokens,
              .mixed_steps = options.mixed_steps,
              .preemption = options.preemption,
              .preemption_policy = options.preemption_policy};
  r.layout = make_kv_layout(bounded(spec.caches, options.max_kv_tokens), options.block_tokens,
                            options.kv_type);
  r.context_tokens = wanted_context(spec, options);
  if (r.context_tokens < 2) {
    throw Error(Code::InvalidArgument,
                fmt::format("a context of {} token leaves no room for an answer: raise the context "
                            "size, or max_position_embeddings of the model",
                            r.context_tokens));
  }
  const int32_t piece = options.prefill_chunk_tokens.value_or(kLongestPiece);
  r.step_tokens = piece > 0 ? std::min(piece, r.context_tokens) : r.context_tokens;
  r.budget_bytes = choose_budget(spec, r);
  if (!r.layout.groups.empty()) {
    const int32_t fitting = fitting_context(r);
    if (fitting < 2) {
      throw Error(Code::InvalidArgument,
                  fmt::format("KV cache budget of {} bytes does not hold one block of {} tokens",
                              r.budget_bytes, r.layout.block_tokens));
    }
    if (fitting < r.context_tokens) {
      log::warn("the KV cache budget of {} bytes holds {} of {} context tokens", r.budget_bytes,
                fitting, r.context_tokens);
      r.context_tokens = fitting;
      r.step_tokens = std::min(r.step_tokens, fitting);
    }
  }
  if (const auto interval = env::get_int("MLXCEL_CACHE_CLEAR_INTERVAL")) {
    check_range("environment variable MLXCEL_CACHE_CLEAR_INTERVAL", *interval, int64_t{0},
                int64_t{1} << 40);
    r.options.cache_clear_interval = *interval;
  }
  r.force_sync = env::present("MLXCEL_FORCE_SYNC");
  return r;
}

}  // namespace mlxcel::engine
