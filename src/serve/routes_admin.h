// Routes that look at the server and its model, and the tools around prompts.
#pragma once

#include "serve/http/exchange.h"
#include "serve/served_model.h"

namespace mlxcel::serve {

/// Adds health, models, props, slots, metrics, cache and settings routes. `state` outlives the
/// router.
void add_admin_routes(Router& router, ServerState& state);

/// Adds /tokenize, /detokenize and /apply-template.
void add_prompt_routes(Router& router, ServerState& state);

}  // namespace mlxcel::serve
