// JSON values in the spellings that schema grammars know.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace mlxcel::text {

/// `value` in canonical spelling, with the keys of its objects in every order (up to `limit`).
std::vector<std::string> canonical_spellings(const Json& value, size_t limit);

}  // namespace mlxcel::text
