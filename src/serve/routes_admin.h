// Routes that look at the server and its model, and the tools around prompts.
#pragma once

#include <string>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/served_model.h"
#include "serve/settings.h"

namespace mlxcel::serve {

/// What only these routes show.
struct AdminOptions {
  std::vector<std::string> tags;
  std::string weight_format = "safetensors";  // or "gguf"
  std::string quantization;                   // "Q4_K", "affine 4 bit", ...
  int32_t hidden_size = 0;
  SettingsStore* settings = nullptr;  // null: no /v1/settings; outlives the router
  int64_t started_unix_s = 0;
  std::string vertex_health_path;  // AIP_HEALTH_ROUTE with AIP_MODE=PREDICTION; empty: none
};

/// Adds health, models, props, slots, metrics, cache and settings routes, and those that say what
/// this server does not do. `state` outlives the router.
void add_admin_routes(Router& router, ServerState& state, const AdminOptions& options);

/// Adds /tokenize, /detokenize and /apply-template.
void add_prompt_routes(Router& router, ServerState& state);

/// Adds what is refused, each with the flag or the work that would change it.
void add_refused_routes(Router& router);

}  // namespace mlxcel::serve
