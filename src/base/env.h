// Typed access to environment variables. A value that cannot be read is an error that names the
// variable, never a silent default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mlxcel::env {

/// The value, or nothing when unset or empty.
std::optional<std::string> get(const char* name);
/// True when the variable exists at all, even empty.
bool present(const char* name);
/// Decimal integer; throws InvalidArgument when set to something else.
std::optional<int64_t> get_int(const char* name);
/// 1/true/on/yes or 0/false/off/no in any case; throws InvalidArgument otherwise.
std::optional<bool> get_bool(const char* name);

/// Bytes from "96GB", "1.5G", "512M", "1024", binary units, optional B. "0" and "none" give 0.
/// Throws InvalidArgument on anything else.
int64_t parse_size(std::string_view text);

}  // namespace mlxcel::env
