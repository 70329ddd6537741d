// The nodes behind GrammarBuilder, for the compilers of this folder.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/builder.h"
#include "text/grammar/program.h"
#include "text/grammar/regular.h"

namespace mlxcel::text {

struct GrammarBuilder::Impl {
  struct Node {
    enum class Kind : uint8_t { Literal, Set, Terminal, Seq, Alt, Repeat, Call };
    Kind kind = Kind::Literal;
    std::string bytes{};           // Literal
    grammar::CharSet set{};        // Set, spelled in UTF-8
    std::vector<uint32_t> kids{};  // Seq, Alt, Repeat
    int32_t min = 0, max = -1;     // Repeat
    uint32_t id = 0;               // Terminal, Call
  };
  struct RuleNode {
    std::string name;
    Expr body = 0;
    bool defined = false;
  };

  explicit Impl(const GrammarLimits& l) : limits(l), started(std::chrono::steady_clock::now()) {}

  Expr add(Node node);
  Expr terminal(grammar::Terminal t);
  Expr dfa(grammar::Dfa d);
  Expr set(grammar::CharSet s) { return add({.kind = Node::Kind::Set, .set = std::move(s)}); }
  /// Throws ResourceExhausted when compiling took longer than the limit.
  void check_time() const;
  size_t dfa_limit() const { return static_cast<size_t>(limits.max_dfa_states); }

  GrammarLimits limits;
  std::chrono::steady_clock::time_point started;
  std::vector<Node> nodes;
  std::vector<RuleNode> rules;
  std::vector<grammar::Terminal> terminals;
  std::unordered_multimap<uint64_t, uint32_t> terminal_ids;
  size_t terminal_states = 0;
};

namespace grammar {

/// Turns the nodes into automata, drops what can never match, and checks the limits.
GrammarProgram lower(const GrammarBuilder::Impl& nodes, GrammarBuilder::Expr root);

}  // namespace grammar

}  // namespace mlxcel::text
