#include "text/grammar/builder.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "base/utf8.h"
#include "text/grammar/builder_impl.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema.h"

namespace mlxcel::text {

namespace {

using Node = GrammarBuilder::Impl::Node;
using grammar::Dfa;
using grammar::Terminal;

/// Aho-Corasick over bytes. `with_marker`: texts up to and including the first marker; otherwise
/// texts without any.
Dfa marker_dfa(const std::vector<std::string>& markers, bool with_marker) {
  std::vector<std::array<uint32_t, 256>> go(1);
  go[0].fill(0);
  std::vector<uint8_t> hit{0};
  std::vector<std::string> path{""};
  for (const std::string& m : markers) {
    MLXCEL_CHECK(!m.empty(), "an empty marker");
    uint32_t s = 0;
    for (const char c : m) {
      uint32_t& t = go[s][static_cast<uint8_t>(c)];
      if (t == 0) {
        t = static_cast<uint32_t>(go.size());
        const std::string p = path[s] + c;
        go.emplace_back().fill(0);
        hit.push_back(0);
        path.push_back(p);
      }
      s = go[s][static_cast<uint8_t>(c)];
    }
    hit[s] = 1;
  }
  const auto tree = go;
  const auto walk = [&](std::string_view text) {  // the state of the longest suffix in the tree
    for (; !text.empty(); text.remove_prefix(1)) {
      uint32_t s = 0;
      for (const char c : text) {
        s = tree[s][static_cast<uint8_t>(c)];
        if (s == 0) break;
      }
      if (s != 0) return s;
    }
    return uint32_t{0};
  };
  for (size_t s = 0; s < go.size(); ++s) {  // a marker may end inside a longer one
    for (std::string_view rest = path[s]; !rest.empty(); rest.remove_prefix(1)) {
      if (std::ranges::find(markers, rest) != markers.end()) hit[s] = 1;
    }
  }
  Dfa raw;
  for (size_t b = 0; b < 256; ++b) raw.classes[b] = static_cast<uint8_t>(b);
  raw.num_classes = 256;
  raw.next.assign((go.size() + 1) * 256, 0);
  raw.accepting.assign(go.size() + 1, 0);
  for (size_t s = 0; s < go.size(); ++s) {
    if (hit[s] != 0) {
      raw.accepting[s + 1] = with_marker ? 1 : 0;
      continue;
    }
    raw.accepting[s + 1] = with_marker ? 0 : 1;
    for (size_t b = 0; b < 256; ++b) {
      uint32_t t = tree[s][b];
      if (t == 0) t = walk((path[s] + static_cast<char>(b)).substr(s == 0 ? 0 : 1));
      raw.next[(s + 1) * 256 + b] = t + 1;
    }
  }
  return grammar::trimmed(raw, Dfa::kStart);
}

}  // namespace

GrammarBuilder::Expr GrammarBuilder::Impl::add(Node node) {
  if (nodes.size() >= size_t{4'000'000}) {
    throw Error(Code::ResourceExhausted, "the grammar is too large");
  }
  if ((nodes.size() & 1023) == 0) check_time();
  nodes.push_back(std::move(node));
  return static_cast<Expr>(nodes.size() - 1);
}

void GrammarBuilder::Impl::check_time() const {
  const auto spent = std::chrono::steady_clock::now() - started;
  if (std::chrono::duration<double>(spent).count() > limits.max_compile_s) {
    throw Error(Code::ResourceExhausted, fmt::format("the grammar takes longer than {:g} seconds "
                                                     "to compile",
                                                     limits.max_compile_s));
  }
}

GrammarBuilder::Expr GrammarBuilder::Impl::terminal(Terminal t) {
  t.flags.resize(t.dfa.num_states());
  for (uint32_t s = 1; s < t.dfa.num_states(); ++s) {
    t.flags[s] = static_cast<uint8_t>((t.dfa.accepts(s) ? Terminal::kAccepts : 0) |
                                      (t.dfa.final_only(s) ? Terminal::kFinal : 0));
  }
  t.hash = grammar::hash_of(t.dfa) ^ (uint64_t{t.min} * 0x9E3779B97F4A7C15ULL) ^
           (uint64_t{t.max} * 0xC2B2AE3D27D4EB4FULL) ^ (static_cast<uint64_t>(t.kind) << 57) ^
           (uint64_t{t.free} << 61) ^ (uint64_t{t.text} << 62) ^ (uint64_t{t.close} << 48);
  for (const TokenId id : t.tokens) t.hash = t.hash * 31 + static_cast<uint64_t>(id);
  const auto [first, last] = terminal_ids.equal_range(t.hash);
  for (auto it = first; it != last; ++it) {
    if (terminals[it->second] == t) {
      return add({.kind = Node::Kind::Terminal, .id = it->second});
    }
  }
  terminal_states += t.dfa.num_states();
  if (terminal_states > static_cast<size_t>(limits.max_total_states)) {
    throw Error(
        Code::ResourceExhausted,
        fmt::format("the grammar needs more than {} automaton states", limits.max_total_states));
  }
  const auto id = static_cast<uint32_t>(terminals.size());
  terminal_ids.emplace(t.hash, id);
  terminals.push_back(std::move(t));
  return add({.kind = Node::Kind::Terminal, .id = id});
}

GrammarBuilder::Expr GrammarBuilder::Impl::dfa(Dfa d) { return terminal({.dfa = std::move(d)}); }

GrammarBuilder::GrammarBuilder(const GrammarLimits& limits)
    : impl_(std::make_unique<Impl>(limits)) {}
GrammarBuilder::~GrammarBuilder() = default;

GrammarBuilder::Expr GrammarBuilder::empty() { return literal(""); }
GrammarBuilder::Expr GrammarBuilder::literal(std::string_view bytes) {
  return impl_->add({.kind = Node::Kind::Literal, .bytes = std::string(bytes)});
}
GrammarBuilder::Expr GrammarBuilder::seq(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  return impl_->add({.kind = Node::Kind::Seq, .kids = std::move(parts)});
}
GrammarBuilder::Expr GrammarBuilder::alt(std::vector<Expr> choices) {
  if (choices.size() == 1) return choices[0];
  return impl_->add({.kind = Node::Kind::Alt, .kids = std::move(choices)});
}
GrammarBuilder::Expr GrammarBuilder::repeat(Expr body, int32_t min, int32_t max) {
  if (min > impl_->limits.max_repeat || max > impl_->limits.max_repeat) {
    throw Error(Code::ResourceExhausted,
                fmt::format("a repetition count above {}", impl_->limits.max_repeat));
  }
  if (max >= 0 && max < min) {
    throw Error(Code::InvalidArgument, "a repetition with its bounds reversed");
  }
  return impl_->add({.kind = Node::Kind::Repeat, .kids = {body}, .min = min, .max = max});
}

GrammarBuilder::RuleId GrammarBuilder::declare(std::string name) {
  if (impl_->rules.size() >= static_cast<size_t>(impl_->limits.max_rules)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("the grammar has more than {} rules", impl_->limits.max_rules));
  }
  impl_->rules.push_back({.name = std::move(name)});
  return static_cast<RuleId>(impl_->rules.size() - 1);
}
void GrammarBuilder::define(RuleId rule, Expr body) {
  impl_->rules[rule].body = body;
  impl_->rules[rule].defined = true;
}
GrammarBuilder::Expr GrammarBuilder::call(RuleId rule) {
  return impl_->add({.kind = Node::Kind::Call, .id = rule});
}

GrammarBuilder::Expr GrammarBuilder::regex(std::string_view pattern) {
  return impl_->dfa(grammar::compile_regular(grammar::parse_regex(pattern), grammar::Spelling::Utf8,
                                             grammar::Anchoring::Whole, impl_->dfa_limit()));
}

GrammarBuilder::Expr GrammarBuilder::json_schema(const Json& schema, std::string_view where) {
  return grammar::compile_schema(*this, schema, where);
}

GrammarBuilder::Expr GrammarBuilder::free_text(std::vector<std::string> markers) {
  return impl_->terminal({.dfa = marker_dfa(markers, false), .free = true});
}
GrammarBuilder::Expr GrammarBuilder::free_until(std::vector<std::string> markers) {
  return impl_->terminal({.dfa = marker_dfa(markers, true), .free = true});
}

namespace {

std::shared_ptr<const Grammar> finished(GrammarProgram program) {
  static std::atomic<uint64_t> next_id{1};
  program.id = next_id++;
  return std::make_shared<const Grammar>(
      std::make_shared<const GrammarProgram>(std::move(program)));
}

}  // namespace

std::shared_ptr<const Grammar> GrammarBuilder::build(Expr root) {
  return finished(grammar::lower(*impl_, root));
}

std::shared_ptr<const Grammar> Grammar::behind(const std::string& marker) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, grammar] : behind_) {
    if (known == marker) return grammar;
  }
  GrammarBuilder prefix;
  prefix.free_until({marker});
  prefix.regex("[ \\t\\r\\n]*");
  GrammarProgram p = *program_;
  const auto first = static_cast<uint32_t>(p.terminals.size());
  for (const Terminal& t : prefix.impl().terminals) p.terminals.push_back(t);
  using grammar::Edge;
  const Edge steps[] = {{Edge::Kind::Terminal, first, 0},
                        {Edge::Kind::Terminal, first + 1, 0},
                        {Edge::Kind::Call, p.root, 0}};
  p.root = static_cast<uint32_t>(p.rules.size());
  p.rules.push_back({.start = static_cast<uint32_t>(p.states.size()), .name = "behind"});
  for (Edge e : steps) {
    e.target = static_cast<uint32_t>(p.states.size() + 1);
    const auto at = static_cast<uint32_t>(p.edges.size());
    p.edges.push_back(e);
    p.states.push_back({.edges_begin = at, .edges_end = at + 1});
  }
  const auto end = static_cast<uint32_t>(p.edges.size());
  p.states.push_back({.edges_begin = end, .edges_end = end, .accepts = true, .tail = true});
  behind_.emplace_back(marker, finished(std::move(p)));
  return behind_.back().second;
}

Grammar::Grammar(std::shared_ptr<const GrammarProgram> program) : program_(std::move(program)) {}
Grammar::~Grammar() = default;

namespace {

template <class Build>
Result<std::shared_ptr<const Grammar>> compiled(const GrammarLimits& limits, size_t source_bytes,
                                                Build build) {
  try {
    if (source_bytes > limits.max_source_bytes) {
      return Error(Code::ResourceExhausted,
                   fmt::format("the grammar has {} bytes; at most {} are accepted", source_bytes,
                               limits.max_source_bytes));
    }
    GrammarBuilder builder(limits);
    return builder.build(build(builder));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace

Result<std::shared_ptr<const Grammar>> Grammar::from_gbnf(std::string_view source,
                                                          const Tokenizer* tokenizer,
                                                          const GrammarLimits& limits) {
  return compiled(limits, source.size(),
                  [&](GrammarBuilder& b) { return grammar::compile_gbnf(b, source, tokenizer); });
}
Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(const Json& schema,
                                                                 const GrammarLimits& limits) {
  return compiled(limits, 0, [&](GrammarBuilder& b) { return b.json_schema(schema); });
}
Result<std::shared_ptr<const Grammar>> Grammar::from_regex(std::string_view pattern,
                                                           const GrammarLimits& limits) {
  return compiled(limits, pattern.size(), [&](GrammarBuilder& b) { return b.regex(pattern); });
}
Result<std::shared_ptr<const Grammar>> Grammar::json_object() {
  static const Result<std::shared_ptr<const Grammar>> shared =
      from_json_schema(Json::object({{"type", "object"}}));
  return shared;
}

bool Grammar::matches(std::string_view text) const {
  grammar::Matcher m(*program_);
  for (const char c : text) {
    if (!m.push(static_cast<uint8_t>(c))) return false;
  }
  return m.matched();
}
bool Grammar::matches_prefix(std::string_view text) const {
  grammar::Matcher m(*program_);
  for (const char c : text) {
    if (!m.push(static_cast<uint8_t>(c))) return false;
  }
  return true;
}

}  // namespace mlxcel::text
