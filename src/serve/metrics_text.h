// GET /metrics: the counters of the engine in Prometheus' text format 0.0.4.
#pragma once

#include <string>

#include "serve/served_model.h"

namespace mlxcel::serve {

/// llama-server's names ("llamacpp:...") first, then ours ("mlxcel_...").
std::string metrics_text(const ServerState& state);

}  // namespace mlxcel::serve
