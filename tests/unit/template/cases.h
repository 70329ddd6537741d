// Frozen answers of Python's jinja2, compared with ours.
#pragma once

#include <string>

#include "base/json.h"

namespace mlxcel::text {

/// Reads and parses a JSON file; throws when it is missing or broken.
Json load_json(const std::string& path);
std::string load_text(const std::string& path);

/// Why `render(template, context)` differs from `expected` ({"text"} or {"error", "message"}), or
/// nothing when it agrees. A raised message must be equal; of other errors only that there is one.
std::string difference(const std::string& source, const Json& context, int64_t now,
                       const Json& expected);

}  // namespace mlxcel::text
