// Regular expressions of schemas and grammars (ECMA-262 with the "u" flag, without back references)
// as automata over bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/grammar/char_set.h"
#include "text/grammar/dfa.h"

namespace mlxcel::text::grammar {

struct RegexNode {
  enum class Kind : uint8_t { Empty, Set, Cat, Alt, Repeat, Begin, End, Look };
  Kind kind = Kind::Empty;
  CharSet set{};
  std::vector<uint32_t> kids{};
  int32_t min = 0, max = -1;  // Repeat; max -1 = unbounded
  bool negative = false;      // Look
};

struct Regex {
  std::vector<RegexNode> nodes;
  uint32_t root = 0;

  uint32_t add(RegexNode node) {
    nodes.push_back(std::move(node));
    return static_cast<uint32_t>(nodes.size() - 1);
  }
};

/// Throws InvalidArgument naming the construct that is wrong or that no automaton can express.
Regex parse_regex(std::string_view pattern);

enum class Anchoring : uint8_t { Whole, Search };  // Search: a match anywhere in the text
/// Throws ResourceExhausted beyond `max_states`.
Dfa compile_regular(const Regex& regex, Spelling spelling, Anchoring anchoring, size_t max_states);
/// Every text of that spelling with `min` to `max` characters; max -1 = any number.
Dfa any_text(Spelling spelling, int32_t min, int32_t max, size_t max_states);

/// Named sets: \d, \w, \s as ECMA-262 has them, \p{...} by general category; empty when unknown.
CharSet digit_set();
CharSet word_set();
CharSet space_set();
bool property_set(std::string_view name, CharSet& out);

}  // namespace mlxcel::text::grammar
