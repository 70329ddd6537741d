#include "engine/stop_matcher.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace mlxcel::engine {
namespace {

constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  if (stops_.size() > kMaxStops) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} stop strings: at most {} are possible", stops_.size(), kMaxStops));
  }
  for (const std::string& s : stops_) {
    if (s.empty()) throw Error(Code::InvalidArgument, "a stop string must not be empty");
    if (s.size() > kMaxStopBytes) {
      throw Error(Code::InvalidArgument,
                  fmt::format("a stop string of {} bytes: at most {} are possible", s.size(),
                              kMaxStopBytes));
    }
    if (!utf8::is_valid(s)) {
      throw Error(Code::InvalidArgument, "a stop string is not valid UTF-8");
    }
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (matched()) return {};
  if (stops_.empty()) return std::string(text);
  for (const char byte : text) {
    pending_.push_back(byte);
    for (const std::string& s : stops_) {
      if (s.size() > match_.size() && pending_.ends_with(s)) match_ = s;
    }
    if (!matched()) continue;
    pending_.resize(pending_.size() - match_.size());
    return std::exchange(pending_, {});
  }
  const size_t released = pending_.size() - held_length();
  std::string out = pending_.substr(0, released);
  pending_.erase(0, released);
  return out;
}

// Length of the longest end of the pending text that some stop string begins with.
size_t StopMatcher::held_length() const {
  size_t longest = 0;
  for (const std::string& s : stops_) {
    size_t length = std::min(s.size() - 1, pending_.size());
    while (length > longest && !pending_.ends_with(std::string_view(s).substr(0, length))) --length;
    longest = std::max(longest, length);
  }
  return longest;
}

std::string StopMatcher::flush() { return std::exchange(pending_, {}); }

}  // namespace mlxcel::engine
