#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "base/env.h"

namespace mlxcel::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::Trace:
      return spdlog::level::trace;
    case Level::Debug:
      return spdlog::level::debug;
    case Level::Info:
      return spdlog::level::info;
    case Level::Warn:
      return spdlog::level::warn;
    case Level::Error:
      return spdlog::level::err;
    case Level::Off:
      return spdlog::level::off;
  }
  return spdlog::level::warn;
}

std::optional<Level> parse_level(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info",
                                                             "warn",  "error", "off"};
  const auto* const it = std::find(kNames.begin(), kNames.end(), name);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<Level>(it - kNames.begin());
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto l = std::make_shared<spdlog::logger>(
        "mlxcel", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    l->set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %v");
    l->set_level(spdlog::level::warn);
    if (const auto wanted = env::get("MLXCEL_LOG")) {
      if (const auto level = parse_level(*wanted)) {
        l->set_level(to_spdlog(*level));
      } else {
        l->warn("MLXCEL_LOG: expected trace, debug, info, warn, error or off, got '{}'", *wanted);
      }
    }
    return l;
  }();
  return *instance;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void write(Level level, std::string_view message) noexcept {
  try {
    logger().log(to_spdlog(level), "{}", message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging must never end the program
  }
}

}  // namespace mlxcel::log
