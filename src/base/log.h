// Leveled logging to stderr. MLXCEL_LOG=trace|debug|info|warn|error|off sets the level (default
// warn).
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>

namespace mlxcel::log {

enum class Level : uint8_t { Trace, Debug, Info, Warn, Error, Off };

void set_level(Level level);
bool enabled(Level level);
/// Writes one line. Never throws; secrets must not be passed here.
void write(Level level, std::string_view message) noexcept;

template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... args) {
  if (enabled(Level::Debug)) write(Level::Debug, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... args) {
  if (enabled(Level::Info)) write(Level::Info, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> f, Args&&... args) {
  if (enabled(Level::Warn)) write(Level::Warn, fmt::format(f, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> f, Args&&... args) {
  if (enabled(Level::Error)) write(Level::Error, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace mlxcel::log
