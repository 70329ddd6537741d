#include "engine/loop_detector.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <string>

#include "base/env.h"
#include "base/error.h"

namespace mlxcel::engine {
namespace {

constexpr int32_t kMaxPattern = 1024;
constexpr int32_t kMaxCount = 4096;
constexpr LoopDetection kOn{.min_pattern_size = 1, .max_pattern_size = 20, .min_count = 12};

std::optional<std::array<int32_t, 3>> three_numbers(std::string_view text) {
  std::array<int32_t, 3> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), values.at(i));
    if (code != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (i + 1 == values.size()) break;
    if (!text.starts_with(',')) return std::nullopt;
    text.remove_prefix(1);
  }
  return text.empty() ? std::optional(values) : std::nullopt;
}

// The last `pattern` tokens occur `count` times in a row at the end.
bool repeats(std::span<const text::TokenId> tokens, size_t pattern, size_t count) {
  if (tokens.size() / count < pattern) return false;
  const size_t end = tokens.size();
  for (size_t i = 1; i <= pattern * (count - 1); ++i) {
    if (tokens[end - i] != tokens[end - i - pattern]) return false;
  }
  return true;
}

}  // namespace

void validate(const LoopDetection& loop) {
  if (loop.min_pattern_size == 0 && loop.max_pattern_size == 0 && loop.min_count == 0) return;
  const auto check = [](const char* name, int32_t value, int32_t low, int32_t high) {
    if (value >= low && value <= high) return;
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} is out of range, expected {} to {}", name, value, low, high));
  };
  check("max_pattern_size", loop.max_pattern_size, 1, kMaxPattern);
  check("min_pattern_size", loop.min_pattern_size, 1, loop.max_pattern_size);
  check("min_count", loop.min_count, 2, kMaxCount);
}

LoopDetection parse_loop_detection(std::string_view text) {
  if (text == "off") return {};
  if (text == "on") return kOn;
  const auto numbers = three_numbers(text);
  if (!numbers) {
    throw Error(Code::InvalidArgument,
                fmt::format("loop detection '{}': expected off, on or MIN,MAX,COUNT", text));
  }
  const LoopDetection loop{.min_pattern_size = (*numbers)[0],
                           .max_pattern_size = (*numbers)[1],
                           .min_count = (*numbers)[2]};
  validate(loop);
  return loop;
}

std::optional<LoopDetection> loop_detection_from_environment() {
  const auto text = env::get("MLXCEL_LOOP_DETECTION");
  if (!text) return std::nullopt;
  try {
    return parse_loop_detection(*text);
  } catch (Error& e) {
    throw std::move(e).within("environment variable MLXCEL_LOOP_DETECTION");
  }
}

bool ends_in_loop(std::span<const text::TokenId> generated, const LoopDetection& loop) {
  if (!loop.enabled()) return false;
  const auto count = static_cast<size_t>(loop.min_count);
  for (int32_t p = loop.min_pattern_size; p <= loop.max_pattern_size; ++p) {
    if (repeats(generated, static_cast<size_t>(p), count)) return true;
  }
  return false;
}

}  // namespace mlxcel::engine
