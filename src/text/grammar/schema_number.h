// Sets of numbers as automata over their decimal spelling, without exponent and without "-0".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "text/grammar/dfa.h"

namespace mlxcel::text::grammar {

/// (-1)^negative * integer.fraction, without leading zeros (but "0") and trailing zeros.
struct Decimal {
  bool negative = false;
  std::string integer = "0", fraction;
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  std::string text() const;
};
/// The exact decimal of an integer, or the shortest one that reads back as the same real.
Decimal decimal_of(const Json& number);

Dfa all_decimals();
Dfa all_integers();
enum class Compare : uint8_t { Less, LessEqual, Greater, GreaterEqual, Equal };
/// Numbers x with x `op` bound, in any spelling with further zeros.
Dfa compared(Compare op, const Decimal& bound);
/// Multiples of `step` > 0; nothing when the automaton would have more than `max_states` states.
std::optional<Dfa> multiples(const Decimal& step, size_t max_states);

}  // namespace mlxcel::text::grammar
