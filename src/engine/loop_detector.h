// Ends answers that repeat themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text/tokenizer.h"

namespace mlxcel::engine {

/// Off by default. On, a sequence ends when its generated tokens end in `min_count` repetitions of
/// one pattern of `min_pattern_size` to `max_pattern_size` tokens.
struct LoopDetection {
  int32_t min_pattern_size = 0, max_pattern_size = 0, min_count = 0;

  bool enabled() const { return max_pattern_size > 0; }
};

/// Throws InvalidArgument naming the field, unless the value is off or 1 <= min_pattern_size <=
/// max_pattern_size <= 1024 and 2 <= min_count <= 4096.
void validate(const LoopDetection& loop);

/// "off", "on" (1, 20, 12) or "MIN,MAX,COUNT", as MLXCEL_LOOP_DETECTION spells it. Throws
/// InvalidArgument on anything else.
LoopDetection parse_loop_detection(std::string_view text);

/// MLXCEL_LOOP_DETECTION; nothing when it is not set.
std::optional<LoopDetection> loop_detection_from_environment();

/// Whether `generated` ends in such a loop. Costs at most max_pattern_size * (min_count - 1)
/// comparisons a pattern size, and one in text that does not repeat.
bool ends_in_loop(std::span<const text::TokenId> generated, const LoopDetection& loop);

}  // namespace mlxcel::engine
