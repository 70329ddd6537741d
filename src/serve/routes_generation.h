// The routes that generate text: llama-server's own, OpenAI's, Anthropic's.
#pragma once

#include "serve/http/exchange.h"
#include "serve/served_model.h"

namespace mlxcel::serve {

/// Adds every generation route. The handlers keep a copy of `state`, whose null `slots` is filled
/// here; they do not keep its engine alive. Throws when the chat template cannot be read.
void add_generation_routes(Router& router, ServerState& state);

}  // namespace mlxcel::serve
