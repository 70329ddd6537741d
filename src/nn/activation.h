// Which function sits inside an MLP, as config.json names it.
#pragma once

#include <string_view>

#include "io/config.h"
#include "ops/ops.h"

namespace mlxcel::nn {

/// The activation named by `key`; `fallback` when the key is absent. Throws Unsupported naming key
/// and value for a name that is not known.
ops::Activation activation_from(const io::Config& c, std::string_view key,
                                std::string_view fallback);

}  // namespace mlxcel::nn
