// The target of a request line: path and query.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlxcel::serve {

/// Decodes %XX. Nothing for a broken escape or an escaped NUL. With `plus_is_space`, "+" becomes a
/// space, as in queries.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order
};

/// Splits and decodes "/path?a=1&b". The absolute form "http://host/path" gives its path. Nothing
/// for a target that is not one.
std::optional<Target> parse_target(std::string_view target);

}  // namespace mlxcel::serve
