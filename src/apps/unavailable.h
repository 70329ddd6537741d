// Documented commands and flags that this build does not have: accepted by the parser so that they
// can be refused by name instead of being called unknown.
#pragma once

#include <span>
#include <string_view>

namespace mlxcel::apps {

struct UnavailableFlag {
  std::string_view names;  // as CLI11 takes them: "-x,--long"
  enum class Value { None, One, Many } value = Value::One;
};

/// Commands of the documentation that are missing here.
std::span<const std::string_view> unavailable_commands();
std::span<const UnavailableFlag> unavailable_generate_flags();
std::span<const UnavailableFlag> unavailable_run_flags();
std::span<const UnavailableFlag> unavailable_inspect_flags();

}  // namespace mlxcel::apps
