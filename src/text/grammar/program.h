// What a grammar compiles to: rules as automata whose edges are terminals (byte automata) or calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/grammar/dfa.h"
#include "text/tokenizer.h"

namespace mlxcel::text {

namespace grammar {

/// A unit of the language below rules.
struct Terminal {
  enum class Kind : uint8_t {
    Bytes,    // a byte string of `dfa`
    Counted,  // min to max words of `dfa` (none is a prefix of another), then the byte `close`
    Token,    // one token out of `tokens`, or any other one
  };
  Kind kind = Kind::Bytes;
  Dfa dfa{};
  uint32_t min = 0, max = UINT32_MAX;
  uint8_t close = 0;
  bool text = false;  // inside of strings: special tokens never start here
  bool free = false;  // free text: special tokens are allowed and start it afresh
  std::vector<TokenId> tokens{};
  bool other_tokens = false;
  uint64_t hash = 0;
  std::vector<uint8_t> flags{};  // per state of dfa

  static constexpr uint8_t kAccepts = 1, kFinal = 2;  // kFinal: nothing may follow inside
  bool operator==(const Terminal&) const = default;
};

struct Edge {
  enum class Kind : uint8_t { Skip, Terminal, Call } kind = Kind::Skip;
  uint32_t id = 0;  // terminal or rule
  uint32_t target = 0;
};

struct State {
  uint32_t edges_begin = 0, edges_end = 0;
  int32_t loop = -1;  // index into loops: the state repeats a rule and counts
  bool accepts = false;
  bool tail = false;  // accepts, and nothing else can follow in this rule
};

/// min to max times the rule `body`; max UINT32_MAX = unbounded.
struct Loop {
  uint32_t body = 0, min = 0, max = UINT32_MAX;
};

struct Rule {
  uint32_t start = 0;
  std::string name;
};

}  // namespace grammar

struct GrammarProgram {
  std::vector<grammar::Terminal> terminals;
  std::vector<grammar::State> states;
  std::vector<grammar::Edge> edges;
  std::vector<grammar::Loop> loops;
  std::vector<grammar::Rule> rules;
  uint32_t root = 0;
  uint64_t id = 0;  // unique in this process
};

}  // namespace mlxcel::text
