// The routes that generate text: llama-server's own, OpenAI's, Anthropic's.
#pragma once

#include "serve/http/exchange.h"
#include "serve/served_model.h"

namespace mlxcel::serve {

/// Adds every generation route. `state` outlives the router and what its handlers started; a null
/// `state.slots` is filled here.
void add_generation_routes(Router& router, ServerState& state);

}  // namespace mlxcel::serve
