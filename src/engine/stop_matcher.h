// Stop strings over streamed text: nothing of a match is released, and what might still become one
// is held back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcel::engine {

/// The match that ends first wins; of those that end at the same byte, the one that begins first.
/// So the result does not depend on how the text was cut into tokens.
class StopMatcher {
 public:
  /// Throws InvalidArgument for an empty stop string, ill-formed UTF-8, more than 64 strings or one
  /// longer than 4096 bytes.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds text and returns what may be released. Once matched(), later text is ignored.
  std::string push(std::string_view text);
  /// The rest, when the text ends without a match.
  std::string flush();
  bool matched() const { return !match_.empty(); }
  const std::string& match() const { return match_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  std::string pending_;  // not released: may be the beginning of a stop string
  std::string match_;
};

}  // namespace mlxcel::engine
