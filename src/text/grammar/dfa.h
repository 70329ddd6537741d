// Deterministic automata over bytes: the terminals of grammars.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace mlxcel::text::grammar {

/// State 0 is dead, state 1 the start. Trimmed: every other state is reachable and can still
/// accept. An empty language has no states but the dead one.
struct Dfa {
  std::array<uint8_t, 256> classes{};  // byte -> class
  uint32_t num_classes = 1;
  std::vector<uint32_t> next{};  // [states, num_classes]
  std::vector<uint8_t> accepting{0};

  static constexpr uint32_t kDead = 0, kStart = 1;
  uint32_t num_states() const { return static_cast<uint32_t>(accepting.size()); }
  bool empty() const { return num_states() <= 1; }
  uint32_t step(uint32_t state, uint8_t byte) const {
    return next[state * num_classes + classes[byte]];
  }
  bool accepts(uint32_t state) const { return accepting[state] != 0; }
  bool matches(std::string_view text) const;
  /// No byte may follow in this state.
  bool final_only(uint32_t state) const;
  bool operator==(const Dfa&) const = default;
};

enum class SetOp : uint8_t { And, Minus, Or };
/// Throws ResourceExhausted beyond `max_states`.
Dfa combine(const Dfa& a, const Dfa& b, SetOp op, size_t max_states);
/// Merges equal states where that converges quickly; the language stays the same.
Dfa minimized(const Dfa& dfa);
/// The strings `words`, exactly.
Dfa dfa_of_words(const std::vector<std::string_view>& words);
Dfa concat_byte(const Dfa& dfa, uint8_t byte);
/// Number of strings, or `cap` when there are at least that many.
uint64_t count_words(const Dfa& dfa, uint64_t cap);
uint64_t hash_of(const Dfa& dfa);

/// Drops states that cannot be reached or cannot accept, and numbers the others breadth-first.
/// `start`: any state of the raw automaton.
Dfa trimmed(const Dfa& raw, uint32_t start);

}  // namespace mlxcel::text::grammar
