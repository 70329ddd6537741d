// How many elements each layer of a model keeps per token, read from its configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/config.h"

namespace mlxcel::apps {

/// Layers with the same cache.
struct KvGroup {
  int64_t layers = 0;
  int64_t k_elements = 0, v_elements = 0;  // per token of one layer
  int64_t window = 0;                      // tokens kept; 0 = all
  /// Tokens that a cache for `context` tokens holds: both lengths rounded up to 256, the smaller.
  int64_t cached_tokens(int64_t context) const;
};

struct KvGeometry {
  std::vector<KvGroup> groups;
  std::string detail;                    // "36 layers x 8 kv heads x 128"
  int64_t k_elements_per_token() const;  // all layers
  int64_t v_elements_per_token() const;
};

/// The section of a configuration that describes the text model (text_config, llm_config,
/// language_config, or the whole).
io::Config text_section(const io::Config& config);

/// By the rules of engine.md 12.1: plain attention, latent attention (kv_lora_rank), recurrent and
/// hybrid layers, sliding windows.
KvGeometry kv_geometry(const io::Config& config);

/// Number of parameters of a plain decoder with these sizes; 0 when the sizes are not known.
int64_t analytical_parameters(const io::Config& config);

}  // namespace mlxcel::apps
