// From regular expressions to automata: Thompson's construction, then subsets.
#include "text/grammar/regular.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxNfaStates = 1'500'000;
constexpr size_t kMaxSubsetWork = 60'000'000;  // members of all subsets together
constexpr uint32_t kNone = UINT32_MAX;

struct NfaState {
  enum class Kind : uint8_t { Range, Split, Begin, End, Final } kind = Kind::Split;
  uint8_t lo = 0, hi = 0;
  uint32_t out = kNone, other = kNone;
};

class NfaBuilder {
 public:
  NfaBuilder(const Regex& regex, Spelling spelling) : regex_(regex), spelling_(spelling) {}

  uint32_t add(NfaState s) {
    if (states.size() >= kMaxNfaStates) {
      throw Error(Code::ResourceExhausted, "the pattern is too large for an automaton");
    }
    states.push_back(s);
    return static_cast<uint32_t>(states.size() - 1);
  }
  uint32_t split(uint32_t a, uint32_t b) {
    return add({.kind = NfaState::Kind::Split, .out = a, .other = b});
  }

  /// The entry of an automaton for `node` that goes on at `next`.
  uint32_t emit(uint32_t node, uint32_t next) {
    const RegexNode& n = regex_.nodes[node];
    switch (n.kind) {
      case RegexNode::Kind::Empty:
        return next;
      case RegexNode::Kind::Set:
        return emit_set(n.set, next);
      case RegexNode::Kind::Cat:
        for (size_t i = n.kids.size(); i-- > 0;) next = emit(n.kids[i], next);
        return next;
      case RegexNode::Kind::Alt: {
        uint32_t entry = kNone;
        for (size_t i = n.kids.size(); i-- > 0;) {
          const uint32_t e = emit(n.kids[i], next);
          entry = entry == kNone ? e : split(e, entry);
        }
        return entry;
      }
      case RegexNode::Kind::Repeat:
        return emit_repeat(n, next);
      case RegexNode::Kind::Begin:
        return add({.kind = NfaState::Kind::Begin, .out = next});
      case RegexNode::Kind::End:
        return add({.kind = NfaState::Kind::End, .out = next});
      case RegexNode::Kind::Look:
        break;
    }
    throw Error(Code::InvalidArgument,
                "a look-ahead is only supported at the beginning of a pattern");
  }

  uint32_t emit_set(const CharSet& set, uint32_t next) {
    std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> made;  // shared tails
    std::vector<uint32_t> entries;
    spell(set, spelling_, [&](const ByteSequence& s) {
      uint32_t at = next;
      for (size_t i = s.size; i-- > 0;) {
        const auto key = std::make_tuple(s.ranges[i].lo, s.ranges[i].hi, at);
        const auto it = made.find(key);
        if (it != made.end()) {
          at = it->second;
          continue;
        }
        at = add(
            {.kind = NfaState::Kind::Range, .lo = s.ranges[i].lo, .hi = s.ranges[i].hi, .out = at});
        made.emplace(key, at);
      }
      if (std::ranges::find(entries, at) == entries.end()) entries.push_back(at);
    });
    uint32_t entry = kNone;
    for (const uint32_t e : entries) entry = entry == kNone ? e : split(e, entry);
    // An empty set matches nothing: a split without ways out.
    return entry == kNone ? split(kNone, kNone) : entry;
  }

  std::vector<NfaState> states;

 private:
  uint32_t emit_repeat(const RegexNode& n, uint32_t next) {
    const uint32_t body = n.kids[0];
    uint32_t entry = next;
    if (n.max < 0) {
      entry = split(kNone, next);
      const uint32_t inner = emit(body, entry);
      states[entry].out = inner;
    } else {
      for (int32_t i = n.min; i < n.max; ++i) entry = split(emit(body, entry), next);
    }
    for (int32_t i = 0; i < n.min; ++i) entry = emit(body, entry);
    return entry;
  }

  const Regex& regex_;
  Spelling spelling_;
};

class Subsets {
 public:
  Subsets(const std::vector<NfaState>& nfa, size_t max_states)
      : nfa_(nfa), max_states_(max_states), mark_(nfa.size(), 0) {}

  Dfa run(uint32_t start) {
    make_classes();
    dfa_.next.assign(dfa_.num_classes, 0);
    begin_ = true;
    add_state(closure({start}));
    begin_ = false;
    known_.clear();  // the start differs from an equal set later on by what stands before it
    for (size_t i = 0; i < sets_.size(); ++i) {
      for (uint32_t c = 0; c < dfa_.num_classes; ++c) {
        const uint8_t byte = representative_[c];
        std::vector<uint32_t> targets;
        for (const uint32_t s : sets_[i]) {
          const NfaState& n = nfa_[s];
          if (n.kind == NfaState::Kind::Range && n.lo <= byte && byte <= n.hi) {
            targets.push_back(n.out);
          }
        }
        const uint32_t t = targets.empty() ? Dfa::kDead : state_of(closure(std::move(targets)));
        dfa_.next.push_back(t);
      }
      work_ += sets_[i].size();
      if (work_ * dfa_.num_classes > kMaxSubsetWork) {
        throw Error(Code::ResourceExhausted,
                    "the pattern takes too long to turn into an automaton");
      }
      sets_[i] = {};
    }
    return minimized(trimmed(dfa_, Dfa::kStart));
  }

 private:
  void make_classes() {
    std::array<bool, 257> edge{};
    for (const NfaState& s : nfa_) {
      if (s.kind != NfaState::Kind::Range) continue;
      edge[s.lo] = true;
      edge[size_t{s.hi} + 1] = true;
    }
    uint32_t c = 0;
    representative_.push_back(0);
    for (size_t b = 0; b < 256; ++b) {
      if (b > 0 && edge[b]) {
        ++c;
        representative_.push_back(static_cast<uint8_t>(b));
      }
      dfa_.classes[b] = static_cast<uint8_t>(c);
    }
    dfa_.num_classes = c + 1;
  }

  /// States that matter (bytes, end of text, final), reached without a byte. Sorted.
  std::vector<uint32_t> closure(std::vector<uint32_t> work, bool at_end = false) {
    ++stamp_;
    std::vector<uint32_t> out;
    while (!work.empty()) {
      const uint32_t s = work.back();
      work.pop_back();
      if (s == kNone || mark_[s] == stamp_) continue;
      mark_[s] = stamp_;
      const NfaState& n = nfa_[s];
      switch (n.kind) {
        case NfaState::Kind::Split:
          work.push_back(n.other);
          work.push_back(n.out);
          break;
        case NfaState::Kind::Begin:
          if (begin_) work.push_back(n.out);
          break;
        case NfaState::Kind::End:
          out.push_back(s);
          if (at_end) work.push_back(n.out);
          break;
        case NfaState::Kind::Range:
        case NfaState::Kind::Final:
          out.push_back(s);
          break;
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  bool accepts(const std::vector<uint32_t>& set) {
    const auto final = [&](uint32_t s) { return nfa_[s].kind == NfaState::Kind::Final; };
    if (std::ranges::any_of(set, final)) return true;
    std::vector<uint32_t> ends;
    for (const uint32_t s : set) {
      if (nfa_[s].kind == NfaState::Kind::End) ends.push_back(s);
    }
    return !ends.empty() && std::ranges::any_of(closure(ends, true), final);
  }

  uint32_t add_state(std::vector<uint32_t> set) {
    if (sets_.size() >= max_states_) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the pattern needs more than {} states", max_states_));
    }
    dfa_.accepting.push_back(accepts(set) ? 1 : 0);
    sets_.push_back(std::move(set));
    return static_cast<uint32_t>(sets_.size());
  }
  uint32_t state_of(std::vector<uint32_t> set) {
    if (set.empty()) return Dfa::kDead;
    const auto it = known_.find(set);
    if (it != known_.end()) return it->second;
    const uint32_t id = add_state(set);
    known_.emplace(std::move(set), id);
    return id;
  }

  struct Hash {
    size_t operator()(const std::vector<uint32_t>& v) const {
      uint64_t h = v.size();
      for (const uint32_t x : v) h = (h ^ x) * 0x9E3779B97F4A7C15ULL + (h >> 29);
      return h;
    }
  };

  const std::vector<NfaState>& nfa_;
  const size_t max_states_;
  std::vector<uint32_t> mark_;
  uint32_t stamp_ = 0;
  bool begin_ = false;
  size_t work_ = 0;
  std::vector<uint8_t> representative_;
  std::vector<std::vector<uint32_t>> sets_;
  std::unordered_map<std::vector<uint32_t>, uint32_t, Hash> known_;
  Dfa dfa_;
};

Dfa compile_plain(const Regex& regex, uint32_t root, Spelling spelling, bool free_before,
                  bool free_behind, size_t max_states) {
  NfaBuilder nfa(regex, spelling);
  uint32_t next = nfa.add({.kind = NfaState::Kind::Final});
  const auto any_loop = [&](uint32_t exit) {
    const uint32_t loop = nfa.split(kNone, exit);
    const uint32_t body = nfa.emit_set(CharSet::all(), loop);
    nfa.states[loop].out = body;
    return loop;
  };
  if (free_behind) next = any_loop(next);
  uint32_t entry = nfa.emit(root, next);
  if (free_before) entry = any_loop(entry);
  return Subsets(nfa.states, max_states).run(entry);
}

}  // namespace

Dfa compile_regular(const Regex& regex, Spelling spelling, Anchoring anchoring, size_t max_states) {
  // Look-aheads at the beginning are conditions on the whole text.
  Regex copy = regex;
  std::vector<RegexNode> looks;
  const RegexNode& root = regex.nodes[regex.root];
  if (root.kind == RegexNode::Kind::Cat || root.kind == RegexNode::Kind::Look) {
    RegexNode rest{.kind = RegexNode::Kind::Cat};
    std::vector<uint32_t> kids = root.kids;
    if (root.kind == RegexNode::Kind::Look) kids = {regex.root};
    bool leading = true;
    bool begins = anchoring == Anchoring::Whole;
    for (const uint32_t k : kids) {
      const RegexNode& n = regex.nodes[k];
      if (leading && n.kind == RegexNode::Kind::Begin) begins = true;
      if (leading && n.kind == RegexNode::Kind::Look) {
        if (!begins) {
          throw Error(Code::InvalidArgument, "a look-ahead is only supported behind ^");
        }
        looks.push_back(n);
        continue;
      }
      leading = leading && n.kind == RegexNode::Kind::Begin;
      rest.kids.push_back(k);
    }
    if (!looks.empty()) copy.root = copy.add(std::move(rest));
  }
  const bool search = anchoring == Anchoring::Search;
  Dfa dfa = compile_plain(copy, copy.root, spelling, search, search, max_states);
  for (const RegexNode& look : looks) {
    const Dfa ahead = compile_plain(copy, look.kids[0], spelling, false, true, max_states);
    dfa = combine(dfa, ahead, look.negative ? SetOp::Minus : SetOp::And, max_states);
  }
  return dfa;
}

Dfa any_text(Spelling spelling, int32_t min, int32_t max, size_t max_states) {
  Regex regex;
  const uint32_t all = regex.add({.kind = RegexNode::Kind::Set, .set = CharSet::all()});
  regex.root = regex.add({.kind = RegexNode::Kind::Repeat, .kids = {all}, .min = min, .max = max});
  return compile_regular(regex, spelling, Anchoring::Whole, max_states);
}

}  // namespace mlxcel::text::grammar
