// The command line of `serve`: from CLI11 and the environment to ServeArguments.
#pragma once

#include <functional>

#include "apps/serve_arguments.h"

namespace CLI {
class App;
}

namespace mlxcel::apps {

/// Adds every flag of `serve` to `app`. The result reads them once `app` has parsed: a flag wins
/// over its variables, the first variable that is set over the default. It throws InvalidArgument
/// or Unsupported naming the flag or variable.
std::function<ServeArguments()> add_serve_options(CLI::App& app);

}  // namespace mlxcel::apps
