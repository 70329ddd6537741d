// From nodes to automata: regular parts become terminals, the rest states with calls.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/builder_impl.h"

namespace mlxcel::text::grammar {

namespace {

using Impl = GrammarBuilder::Impl;
using Node = Impl::Node;
using Expr = GrammarBuilder::Expr;

constexpr uint32_t kFoldSize = 3000;  // characters of a part that becomes one automaton
constexpr size_t kFoldStates = 2500;  // and the states it may have
constexpr uint32_t kNotRegular = UINT32_MAX;
constexpr int kMaxInlineDepth = 500;
constexpr int32_t kUnrolled = 4;  // copies of a repeated body before a counter is cheaper
constexpr int kMaxNodeDepth = 2000;

class Lowering {
 public:
  Lowering(const Impl& nodes, Expr root)
      : b_(nodes),
        sizes_(nodes.nodes.size(), 0),
        rule_sizes_(nodes.rules.size(), 0),
        folded_(nodes.nodes.size()),
        rule_ids_(nodes.rules.size(), UINT32_MAX) {
    out_.terminals = nodes.terminals;
    for (size_t i = 0; i < out_.terminals.size(); ++i) {
      terminal_ids_.emplace(out_.terminals[i].hash, static_cast<uint32_t>(i));
    }
    out_.root = body_rule("root", root);
    while (!pending_.empty()) {
      const auto [program_rule, body] = pending_.back();
      pending_.pop_back();
      const uint32_t start = state();
      const uint32_t end = state();
      accepts_[end] = true;
      out_.rules[program_rule].start = start;
      expr(body, start, end, 0);
      b_.check_time();
    }
  }

  GrammarProgram run() {
    prune();
    flatten();
    return std::move(out_);
  }

 private:
  uint32_t state() {
    if (edges_.size() >= static_cast<size_t>(b_.limits.max_total_states)) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the grammar needs more than {} states", b_.limits.max_total_states));
    }
    edges_.emplace_back();
    accepts_.push_back(false);
    loops_.push_back(-1);
    return static_cast<uint32_t>(edges_.size() - 1);
  }
  void skip(uint32_t from, uint32_t to) { edges_[from].push_back({Edge::Kind::Skip, 0, to}); }

  uint32_t new_rule(std::string name) {
    if (out_.rules.size() >= static_cast<size_t>(b_.limits.max_rules)) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the grammar has more than {} rules", b_.limits.max_rules));
    }
    out_.rules.push_back({.start = 0, .name = std::move(name)});
    return static_cast<uint32_t>(out_.rules.size() - 1);
  }
  uint32_t body_rule(std::string name, Expr body) {
    const uint32_t rule = new_rule(std::move(name));
    pending_.emplace_back(rule, body);
    return rule;
  }
  uint32_t rule_of(uint32_t id) {
    if (rule_ids_[id] == UINT32_MAX) {
      const Impl::RuleNode& r = b_.rules[id];
      if (!r.defined) {
        throw Error(Code::InvalidArgument, fmt::format("the rule \"{}\" is not defined", r.name));
      }
      rule_ids_[id] = body_rule(r.name, r.body);
    }
    return rule_ids_[id];
  }

  // The number of characters in the regular expression that `e` stands for.
  uint32_t size(Expr e, int depth = 0) {
    if (sizes_[e] != 0) return sizes_[e];
    if (depth > kMaxInlineDepth) return kNotRegular;
    const Node& n = b_.nodes[e];
    uint64_t total = 1;
    const auto add = [&](uint32_t part, uint64_t times) {
      if (part == kNotRegular) {
        total = kNotRegular;
      } else if (total != kNotRegular) {
        total = std::min<uint64_t>(total + part * times, kNotRegular);
      }
    };
    switch (n.kind) {
      case Node::Kind::Literal:
        total = utf8::is_valid(n.bytes) ? n.bytes.size() + 1 : kNotRegular;
        break;
      case Node::Kind::Set:
        total = 1 + n.set.ranges().size() / 8;
        break;
      case Node::Kind::Terminal:
        total = kNotRegular;
        break;
      case Node::Kind::Seq:
      case Node::Kind::Alt:
        for (const uint32_t k : n.kids) add(size(k, depth + 1), 1);
        break;
      case Node::Kind::Repeat:
        add(size(n.kids[0], depth + 1), static_cast<uint64_t>(std::max({n.min + 1, n.max, 1})));
        break;
      case Node::Kind::Call: {
        uint32_t& known = rule_sizes_[n.id];
        if (known == 0) {
          known = kNotRegular;  // while it is being looked at: a rule inside itself
          if (b_.rules[n.id].defined) known = size(b_.rules[n.id].body, depth + 1);
        }
        total = known;
        break;
      }
    }
    if (total > kFoldSize) total = kNotRegular;
    sizes_[e] = static_cast<uint32_t>(total);
    return sizes_[e];
  }

  uint32_t to_regex(Expr e, Regex& out) {
    const Node& n = b_.nodes[e];
    RegexNode r;
    switch (n.kind) {
      case Node::Kind::Literal:
        r.kind = RegexNode::Kind::Cat;
        for (std::string_view rest = n.bytes; !rest.empty();) {
          const utf8::Decoded d = utf8::decode(rest);
          r.kids.push_back(out.add(
              {.kind = RegexNode::Kind::Set, .set = CharSet{{d.code_point, d.code_point}}}));
          rest.remove_prefix(static_cast<size_t>(d.length));
        }
        break;
      case Node::Kind::Set:
        r.kind = RegexNode::Kind::Set;
        r.set = n.set;
        break;
      case Node::Kind::Seq:
      case Node::Kind::Alt:
        r.kind = n.kind == Node::Kind::Seq ? RegexNode::Kind::Cat : RegexNode::Kind::Alt;
        for (const uint32_t k : n.kids) r.kids.push_back(to_regex(k, out));
        break;
      case Node::Kind::Repeat:
        r.kind = RegexNode::Kind::Repeat;
        r.min = n.min;
        r.max = n.max;
        r.kids.push_back(to_regex(n.kids[0], out));
        break;
      case Node::Kind::Call:
        return to_regex(b_.rules[n.id].body, out);
      case Node::Kind::Terminal:
        MLXCEL_CHECK(false, "a terminal is not part of a regular expression");
    }
    return out.add(std::move(r));
  }

  uint32_t add_terminal(Dfa dfa) {
    Impl scratch(b_.limits);
    scratch.terminal({.dfa = std::move(dfa)});
    Terminal& t = scratch.terminals[0];
    const auto [first, last] = terminal_ids_.equal_range(t.hash);
    for (auto it = first; it != last; ++it) {
      if (out_.terminals[it->second] == t) return it->second;
    }
    const auto id = static_cast<uint32_t>(out_.terminals.size());
    total_dfa_states_ += t.dfa.num_states();
    if (total_dfa_states_ > static_cast<size_t>(b_.limits.max_total_states)) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the grammar needs more than {} states", b_.limits.max_total_states));
    }
    terminal_ids_.emplace(t.hash, id);
    out_.terminals.push_back(std::move(t));
    return id;
  }

  // One automaton for `parts` one after the other (or as alternatives); nothing when too large.
  std::optional<uint32_t> fold(const std::vector<Expr>& parts, bool alternatives) {
    const bool single = parts.size() == 1;
    if (single && folded_[parts[0]]) return *folded_[parts[0]];
    std::optional<uint32_t> id;
    bool literals = single || alternatives;
    for (const Expr p : parts) literals &= b_.nodes[p].kind == Node::Kind::Literal;
    try {
      if (literals) {
        std::vector<std::string_view> words;
        for (const Expr p : parts) words.push_back(b_.nodes[p].bytes);
        id = add_terminal(dfa_of_words(words));
      } else {
        Regex regex;
        RegexNode top{.kind = alternatives ? RegexNode::Kind::Alt : RegexNode::Kind::Cat};
        for (const Expr p : parts) top.kids.push_back(to_regex(p, regex));
        regex.root = regex.add(std::move(top));
        id = add_terminal(compile_regular(regex, Spelling::Utf8, Anchoring::Whole, kFoldStates));
      }
    } catch (const Error& e) {
      if (e.code() != Code::ResourceExhausted || total_dfa_states_ > kMaxFoldTotal) throw;
    }
    if (single) folded_[parts[0]] = id;
    return id;
  }

  bool fold_edge(const std::vector<Expr>& parts, bool alternatives, uint32_t from, uint32_t to) {
    const std::optional<uint32_t> id = fold(parts, alternatives);
    if (!id) return false;
    edges_[from].push_back({Edge::Kind::Terminal, *id, to});
    return true;
  }

  void expr(Expr e, uint32_t from, uint32_t to, int depth) {
    if (depth > kMaxNodeDepth) {
      throw Error(Code::ResourceExhausted, "the grammar is nested too deeply");
    }
    const Node& n = b_.nodes[e];
    if (n.kind == Node::Kind::Literal && n.bytes.empty()) return skip(from, to);
    if (n.kind == Node::Kind::Literal || (size(e) != kNotRegular)) {
      if (fold_edge({e}, false, from, to)) return;
    }
    switch (n.kind) {
      case Node::Kind::Literal:
      case Node::Kind::Set:
        throw Error(Code::ResourceExhausted, "a character set of the grammar is too large");
      case Node::Kind::Terminal:
        edges_[from].push_back({Edge::Kind::Terminal, n.id, to});
        return;
      case Node::Kind::Call:
        edges_[from].push_back({Edge::Kind::Call, rule_of(n.id), to});
        return;
      case Node::Kind::Seq:
        return sequence(n.kids, from, to, depth);
      case Node::Kind::Alt:
        return alternatives(n.kids, from, to, depth);
      case Node::Kind::Repeat:
        return repeat(n, from, to, depth);
    }
  }

  void sequence(const std::vector<Expr>& kids, uint32_t from, uint32_t to, int depth) {
    uint32_t at = from;
    for (size_t i = 0; i < kids.size();) {
      // A run of regular parts becomes one automaton.
      std::vector<Expr> run;
      uint64_t total = 0;
      size_t j = i;
      for (; j < kids.size() && size(kids[j]) != kNotRegular; ++j) {
        total += size(kids[j]);
        if (total > kFoldSize) break;
        run.push_back(kids[j]);
      }
      if (run.size() > 1) {
        const uint32_t next = j == kids.size() ? to : state();
        if (fold_edge(run, false, at, next)) {
          at = next;
          i = j;
          continue;
        }
      }
      const uint32_t next = i + 1 == kids.size() ? to : state();
      expr(kids[i], at, next, depth + 1);
      at = next;
      ++i;
    }
    if (kids.empty()) skip(from, to);
  }

  void alternatives(const std::vector<Expr>& kids, uint32_t from, uint32_t to, int depth) {
    std::vector<Expr> regular;
    std::vector<Expr> others;
    uint64_t total = 0;
    for (const Expr k : kids) {
      const uint32_t s = size(k);
      const bool word = b_.nodes[k].kind == Node::Kind::Literal;
      if (s != kNotRegular && (total + s <= kFoldSize || word)) {
        total += s;
        regular.push_back(k);
      } else {
        others.push_back(k);
      }
    }
    if (!regular.empty() && !fold_edge(regular, true, from, to)) {
      others.insert(others.end(), regular.begin(), regular.end());
    }
    for (const Expr k : others) {
      // Alternatives may start with a loop; each gets a state of its own.
      const uint32_t begin = state();
      skip(from, begin);
      expr(k, begin, to, depth + 1);
    }
  }

  void repeat(const Node& n, uint32_t from, uint32_t to, int depth) {
    if (n.max == 0) return skip(from, to);
    const Expr body = n.kids[0];
    const bool few = n.min <= kUnrolled && n.max <= kUnrolled;
    if (n.min <= 1 && n.max == 1) {
      if (n.min == 0) skip(from, to);
      return expr(body, from, to, depth + 1);
    }
    const uint32_t rule = body_as_rule(body);
    if (few) {  // max -1 (unbounded) or small
      uint32_t at = from;
      const auto call = [&](uint32_t next) {
        edges_[at].push_back({Edge::Kind::Call, rule, next});
        at = next;
      };
      for (int32_t i = 0; i < n.min; ++i) call(state());
      if (n.max < 0) {
        const uint32_t loop = state();
        skip(at, loop);
        edges_[loop].push_back({Edge::Kind::Call, rule, loop});
        skip(loop, to);
        return;
      }
      for (int32_t i = n.min; i < n.max; ++i) {
        skip(at, to);
        call(state());
      }
      skip(at, to);
      return;
    }
    const uint32_t counter = new_rule("repeat");
    const uint32_t start = state();
    out_.rules[counter].start = start;
    loops_[start] = static_cast<int32_t>(out_.loops.size());
    out_.loops.push_back({.body = rule,
                          .min = static_cast<uint32_t>(n.min),
                          .max = n.max < 0 ? UINT32_MAX : static_cast<uint32_t>(n.max)});
    edges_[from].push_back({Edge::Kind::Call, counter, to});
  }

  uint32_t body_as_rule(Expr body) {
    if (b_.nodes[body].kind == Node::Kind::Call) return rule_of(b_.nodes[body].id);
    const auto it = body_rules_.find(body);
    if (it != body_rules_.end()) return it->second;
    const uint32_t rule = body_rule("part", body);
    body_rules_.emplace(body, rule);
    return rule;
  }

  // Removes edges that can never be completed, so that no path leads into a dead end.
  void prune() {
    const size_t n = edges_.size();
    std::vector<uint8_t> live(n, 0);
    std::vector<uint8_t> rule_live(out_.rules.size(), 0);
    const auto edge_live = [&](const Edge& e) {
      if (live[e.target] == 0) return false;
      switch (e.kind) {
        case Edge::Kind::Skip:
          return true;
        case Edge::Kind::Terminal: {
          const Terminal& t = out_.terminals[e.id];
          return t.kind == Terminal::Kind::Token || !t.dfa.empty() ||
                 (t.kind == Terminal::Kind::Counted && t.min == 0);
        }
        case Edge::Kind::Call:
          break;
      }
      return rule_live[e.id] != 0;
    };
    for (bool changed = true; changed;) {
      changed = false;
      b_.check_time();
      for (size_t s = n; s-- > 0;) {
        if (live[s] != 0) continue;
        bool now = accepts_[s];
        if (loops_[s] >= 0) {
          const Loop& l = out_.loops[static_cast<size_t>(loops_[s])];
          now = l.min == 0 || rule_live[l.body] != 0;
        }
        now = now || std::ranges::any_of(edges_[s], edge_live);
        if (now) {
          live[s] = 1;
          changed = true;
        }
      }
      for (size_t r = 0; r < out_.rules.size(); ++r) {
        if (rule_live[r] == 0 && live[out_.rules[r].start] != 0) {
          rule_live[r] = 1;
          changed = true;
        }
      }
    }
    if (rule_live[out_.root] == 0) {
      throw Error(Code::InvalidArgument, "nothing satisfies this grammar or schema");
    }
    for (size_t s = 0; s < n; ++s) {
      std::erase_if(edges_[s], [&](const Edge& e) { return !edge_live(e); });
      if (loops_[s] >= 0) {
        Loop& l = out_.loops[static_cast<size_t>(loops_[s])];
        if (rule_live[l.body] == 0) l.max = 0;
      }
    }
  }

  void flatten() {
    const size_t n = edges_.size();
    out_.states.resize(n);
    for (size_t s = 0; s < n; ++s) {
      State& st = out_.states[s];
      st.accepts = accepts_[s];
      st.loop = loops_[s];
      st.edges_begin = static_cast<uint32_t>(out_.edges.size());
      out_.edges.insert(out_.edges.end(), edges_[s].begin(), edges_[s].end());
      st.edges_end = static_cast<uint32_t>(out_.edges.size());
    }
    for (size_t s = 0; s < n; ++s) {
      size_t at = s;
      for (int hops = 0; hops < 8; ++hops) {
        if (accepts_[at] && edges_[at].empty() && loops_[at] < 0) {
          out_.states[s].tail = true;
          break;
        }
        if (accepts_[at] || loops_[at] >= 0 || edges_[at].size() != 1 ||
            edges_[at][0].kind != Edge::Kind::Skip) {
          break;
        }
        at = edges_[at][0].target;
      }
    }
  }

  static constexpr size_t kMaxFoldTotal = 500'000;
  const Impl& b_;
  GrammarProgram out_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<bool> accepts_;
  std::vector<int32_t> loops_;
  std::vector<uint32_t> sizes_, rule_sizes_;
  std::vector<std::optional<std::optional<uint32_t>>> folded_;
  std::vector<uint32_t> rule_ids_;
  std::unordered_map<Expr, uint32_t> body_rules_;
  std::vector<std::pair<uint32_t, Expr>> pending_;
  std::unordered_multimap<uint64_t, uint32_t> terminal_ids_;
  size_t total_dfa_states_ = 0;
};

}  // namespace

GrammarProgram lower(const GrammarBuilder::Impl& nodes, GrammarBuilder::Expr root) {
  return Lowering(nodes, root).run();
}

}  // namespace mlxcel::text::grammar
