// What a model will need in memory, from its files' headers and its configuration alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "io/config.h"

namespace mlxcel::apps {

struct EstimateInputs {
  int64_t context_tokens = 8192;
  int64_t batch = 1;
  std::string quant = "default";                             // printed only
  std::string cache_type_k = "fp16", cache_type_v = "fp16";  // fp16 or int8
};

/// Bytes throughout. Sums that leave 64 bits stick at the largest value.
struct MemoryEstimate {
  EstimateInputs inputs;
  std::string model;                  // as the user named it
  std::string model_type;             // empty when the configuration has none
  std::optional<std::string> family;  // registry id
  int64_t weights = 0;
  std::string weights_source;  // safetensors_index, safetensors_header, gguf_header,
                               // analytical_config or fallback
  std::optional<int64_t> kv_per_token_fp16, kv_per_token_int8;
  int64_t kv_total = 0;
  std::string kv_detail;
  int64_t activation = 0;
  double headroom_factor = 1.20;
  int64_t allocator_overhead = 0;  // (factor - 1) * (weights + kv)
  int64_t headroom = 0;            // allocator_overhead + activation
  int64_t available = 0, total = 0;
  bool fits = false;
};

/// Estimates by engine.md 12.1 for the model at `path` (a directory or a .gguf file). Throws
/// NotFound without a configuration, Corrupt for damaged headers.
MemoryEstimate estimate_memory(const std::string& path, const std::string& model_name,
                               const EstimateInputs& inputs);

/// The configuration of the model at `path`: config.json or GGUF metadata under the same keys.
io::Config model_config(const std::string& path);

/// The text banner of engine.md 12.2, lines ending in '\n'.
std::string estimate_banner(const MemoryEstimate& estimate);
/// The object of `inspect --json`.
Json estimate_json(const MemoryEstimate& estimate);
/// "1.50 GiB (1610612736 bytes)", "1.5 MiB (1572864 bytes)" or "12 bytes".
std::string byte_text(int64_t bytes);

/// Bytes that may be used: MLXCEL_MEMORY_LIMIT, else what the system has available, else 0.
int64_t available_memory();

}  // namespace mlxcel::apps
