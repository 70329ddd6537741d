#include "base/log.h"

#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/error.h"
#include "base/log_file.h"

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

/// Whole lines to one descriptor, unbuffered, so that nothing is lost when the process ends.
class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {}
  ~DescriptorSink() override { ::close(descriptor_); }
  DescriptorSink(const DescriptorSink&) = delete;
  DescriptorSink& operator=(const DescriptorSink&) = delete;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* at = line.data();
    size_t left = line.size();
    while (left > 0) {
      const ssize_t n = ::write(descriptor_, at, left);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // a full disk must not end the program
      at += n;
      left -= static_cast<size_t>(n);
    }
  }
  void flush_() override {}

 private:
  int descriptor_;
};

constexpr const char* kPattern = "[%Y-%m-%d %H:%M:%S.%e] [%^%l%$] %v";

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto l = std::make_shared<spdlog::logger>(
        "mlxcel", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    l->set_pattern(kPattern);
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

void write_to_file(const std::string& path) {
  const int descriptor = ::open(
      path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
  const auto refuse = [&](const char* why) {
    if (descriptor >= 0) ::close(descriptor);
    throw Error(Code::InvalidArgument, fmt::format("cannot log to '{}': {}", path, why));
  };
  if (descriptor < 0) {
    refuse(errno == ELOOP ? "it is a symbolic link" : std::strerror(errno));
  }
  struct stat info{};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) refuse("it is no plain file");
  auto sink = std::make_shared<DescriptorSink>(descriptor);
  sink->set_pattern(kPattern);
  logger().sinks() = {std::move(sink)};
}

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void write(Level level, std::string_view message) noexcept {
  try {
    logger().log(to_spdlog(level), "{}", message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): logging must never end the program
  }
}

}  // namespace mlxcel::log
