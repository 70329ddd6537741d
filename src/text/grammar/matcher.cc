#include "text/grammar/matcher.h"

#include <algorithm>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {
constexpr size_t kLinear = 24;  // keys that are compared one by one
}

uint64_t SeenSet::hash(const Key& k) {
  uint64_t h = k.a * 0x9E3779B97F4A7C15ULL;
  h = (h ^ (h >> 32) ^ k.b) * 0xC2B2AE3D27D4EB4FULL;
  h = (h ^ (h >> 29) ^ k.c) * 0x165667B19E3779F9ULL;
  return h ^ (h >> 32);
}

void SeenSet::rehash(size_t size) {
  table_.assign(size, UINT32_MAX);
  for (size_t i = 0; i < keys_.size(); ++i) {
    size_t at = hash(keys_[i]) & (size - 1);
    while (table_[at] != UINT32_MAX) at = (at + 1) & (size - 1);
    table_[at] = static_cast<uint32_t>(i);
  }
}

bool SeenSet::insert(uint64_t a, uint64_t b, uint64_t c) {
  const Key key{a, b, c};
  if (!hashed_) {
    if (std::ranges::find(keys_, key) != keys_.end()) return false;
    keys_.push_back(key);
    if (keys_.size() > kLinear) {
      hashed_ = true;
      rehash(kLinear * 4 < 128 ? 128 : kLinear * 4);
    }
    return true;
  }
  const size_t mask = table_.size() - 1;
  size_t at = hash(key) & mask;
  for (; table_[at] != UINT32_MAX; at = (at + 1) & mask) {
    if (keys_[table_[at]] == key) return false;
  }
  table_[at] = static_cast<uint32_t>(keys_.size());
  keys_.push_back(key);
  if (keys_.size() * 2 > table_.size()) rehash(table_.size() * 2);
  return true;
}

Matcher::Matcher(const GrammarProgram& program)
    : program_(program), frame_of_rule_(program.rules.size(), kNone) {
  callers_.push_back({});  // 0 ends a list
  levels_.push_back({.callers = 1});
  frames_.push_back({.rule = program.root});
  frame_of_rule_[program.root] = 0;
  go_on(program.rules[program.root].start, 0, 0);
  settle();
}

void Matcher::open_level() {
  levels_.push_back({.items = static_cast<uint32_t>(items_.size()),
                     .frames = static_cast<uint32_t>(frames_.size()),
                     .callers = static_cast<uint32_t>(callers_.size()),
                     .position = levels_.back().position + 1});
  seen_items_.clear();
  seen_continuations_.clear();
}

void Matcher::pop() {
  const Level& l = levels_.back();
  items_.resize(l.items);
  frames_.resize(l.frames);
  callers_.resize(l.callers);
  levels_.pop_back();
}

void Matcher::squash(size_t from_depth) {
  const Level last = levels_.back();
  Level& kept = levels_[from_depth];
  const size_t num = items_.size() - last.items;
  std::copy(items_.begin() + last.items, items_.end(), items_.begin() + kept.items);
  items_.resize(kept.items + num);
  kept.position = last.position;
  kept.matched = last.matched;
  levels_.resize(from_depth + 1);
}

void Matcher::add_item(const Item& item) {
  const bool fresh = seen_items_.insert((uint64_t{item.terminal} << 32) | item.state,
                                        (uint64_t{item.count} << 32) | item.ret,
                                        (uint64_t{item.ret_count} << 32) | item.frame);
  if (!fresh) return;
  if (items_.size() - levels_.back().items >= kMaxItems) {
    throw Error(Code::ResourceExhausted,
                "the grammar is too ambiguous: more than 20000 readings of the text so far");
  }
  items_.push_back(item);
}

void Matcher::go_on(uint32_t ret, uint32_t count, uint32_t frame) {
  if (seen_continuations_.insert(ret, count, frame)) work_.push_back({ret, count, frame});
}

void Matcher::note_completion(uint32_t frame) {
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (watched_[i].first != frame) continue;
    const uint32_t below = watched_[i].second + 1;
    watched_depth_ = std::max(watched_depth_, below);
    for (uint32_t c = frames_[frame].callers; c != 0; c = callers_[c].next) {
      const uint32_t f = callers_[c].frame;
      const auto known = std::ranges::find(watched_, f, &std::pair<uint32_t, uint32_t>::first);
      if (known == watched_.end()) {
        watched_.emplace_back(f, below);
      } else if (known->second > below) {
        known->second = below;
      }
    }
    return;
  }
}

void Matcher::watch(uint32_t base) {
  watched_.assign(1, {base, 0});
  watched_depth_ = 0;
}

void Matcher::complete(uint32_t frame) {
  if (!watched_.empty()) note_completion(frame);
  const bool here = frames_[frame].position == levels_.back().position;
  if (here) {
    if (frames_[frame].completed_here) return;  // later callers are told when they come
    frames_[frame].completed_here = true;
  }
  if (frame == 0) levels_.back().matched = true;
  for (uint32_t c = frames_[frame].callers; c != 0; c = callers_[c].next) {
    const Caller caller = callers_[c];
    give_back(caller.ret, caller.count, caller.frame, here);
  }
}

// Goes on behind a call; `empty`: what was called matched the empty text.
void Matcher::give_back(uint32_t ret, uint32_t count, uint32_t frame, bool empty) {
  if (empty && program_.states[ret].loop >= 0) {
    complete(frame);  // all rounds that are missing may be empty too, and further ones add nothing
  } else {
    go_on(ret, count, frame);
  }
}

void Matcher::enter(uint32_t rule, uint32_t ret, uint32_t count, uint32_t frame) {
  const uint32_t position = levels_.back().position;
  // A call in last place returns to where its own rule does: lists of any length stay flat.
  const auto ends_there = [&](uint32_t c) {  // so that this goes one step, never in a circle
    return !program_.states[callers_[c].ret].tail || callers_[c].frame == 0;
  };
  bool last = program_.states[ret].tail && frame != 0 && frames_[frame].position != position;
  for (uint32_t c = last ? frames_[frame].callers : 0; c != 0; c = callers_[c].next) {
    last = last && ends_there(c);
  }
  if (last) {
    if (!watched_.empty()) note_completion(frame);
    for (uint32_t c = frames_[frame].callers; c != 0; c = callers_[c].next) {
      const Caller caller = callers_[c];
      enter(rule, caller.ret, caller.count, caller.frame);
    }
    return;
  }
  uint32_t f = frame_of_rule_[rule];
  const bool there = f < frames_.size() && frames_[f].rule == rule &&
                     frames_[f].position == position && f >= levels_.back().frames;
  if (there) {
    for (uint32_t c = frames_[f].callers; c != 0; c = callers_[c].next) {
      const Caller& k = callers_[c];
      if (k.ret == ret && k.count == count && k.frame == frame) return;
    }
  } else {
    const uint32_t depth = frames_[frame].depth + 1;
    if (depth > kMaxNesting) return;
    f = static_cast<uint32_t>(frames_.size());
    frames_.push_back({.rule = rule, .position = position, .callers = 0, .depth = depth});
    frame_of_rule_[rule] = f;
  }
  callers_.push_back({ret, count, frame, frames_[f].callers});
  frames_[f].callers = static_cast<uint32_t>(callers_.size() - 1);
  if (!there) {
    go_on(program_.rules[rule].start, 0, f);
  } else if (frames_[f].completed_here) {
    give_back(ret, count, frame, true);
  }
}

// Follows everything that needs no byte.
void Matcher::settle() {
  while (!work_.empty()) {
    const Continuation k = work_.back();
    work_.pop_back();
    const State& s = program_.states[k.ret];
    if (s.loop >= 0) {
      const Loop& l = program_.loops[static_cast<size_t>(s.loop)];
      const uint32_t done = k.count;
      // Counting beyond an unbounded loop's minimum would only tell equal states apart.
      const uint32_t next = l.max == UINT32_MAX ? std::min(done + 1, l.min) : done + 1;
      if (done < l.max) enter(l.body, k.ret, next, k.frame);
      if (done >= l.min) complete(k.frame);
      continue;
    }
    if (s.accepts) complete(k.frame);
    for (uint32_t e = s.edges_begin; e < s.edges_end; ++e) {
      const Edge& edge = program_.edges[e];
      switch (edge.kind) {
        case Edge::Kind::Skip:
          go_on(edge.target, 0, k.frame);
          break;
        case Edge::Kind::Call:
          enter(edge.id, edge.target, 0, k.frame);
          break;
        case Edge::Kind::Terminal: {
          const Terminal& t = program_.terminals[edge.id];
          const bool nullable = t.kind == Terminal::Kind::Bytes && !t.dfa.empty() &&
                                (t.flags[Dfa::kStart] & Terminal::kAccepts) != 0;
          if (nullable) go_on(edge.target, 0, k.frame);
          if (nullable && (t.flags[Dfa::kStart] & Terminal::kFinal) != 0) break;
          add_item({edge.id, Dfa::kStart, 0, edge.target, 0, k.frame});
          break;
        }
      }
    }
  }
}

bool Matcher::push(uint8_t byte, bool special) {
  const uint32_t begin = levels_.back().items;
  const auto end = static_cast<uint32_t>(items_.size());
  open_level();
  for (uint32_t i = begin; i < end; ++i) {
    Item item = items_[i];
    const Terminal& t = program_.terminals[item.terminal];
    if (t.kind == Terminal::Kind::Token || (special && t.text)) continue;
    if (t.kind == Terminal::Kind::Counted && item.state == Dfa::kStart) {
      if (byte == t.close) {
        if (item.count >= t.min) go_on(item.ret, item.ret_count, item.frame);
        continue;
      }
      if (item.count >= t.max) continue;
    }
    if (t.dfa.empty()) continue;
    const uint32_t s = t.dfa.step(item.state, byte);
    if (s == Dfa::kDead) continue;
    item.state = s;
    const uint8_t flags = t.flags[s];
    if (t.kind == Terminal::Kind::Counted) {
      if ((flags & Terminal::kAccepts) != 0) {
        item.state = Dfa::kStart;
        // Counting beyond the minimum without a maximum would only tell equal states apart.
        if (t.max != UINT32_MAX || item.count < t.min) ++item.count;
      }
      add_item(item);
      continue;
    }
    if ((flags & Terminal::kFinal) == 0) add_item(item);
    if ((flags & Terminal::kAccepts) != 0) go_on(item.ret, item.ret_count, item.frame);
  }
  settle();
  if (items_.size() > levels_.back().items || levels_.back().matched) return true;
  pop();
  return false;
}

bool Matcher::push_token(TokenId id) {
  const uint32_t begin = levels_.back().items;
  const auto end = static_cast<uint32_t>(items_.size());
  open_level();
  for (uint32_t i = begin; i < end; ++i) {
    Item item = items_[i];
    const Terminal& t = program_.terminals[item.terminal];
    if (t.kind == Terminal::Kind::Token) {
      const bool named = std::ranges::find(t.tokens, id) != t.tokens.end();
      if (named != t.other_tokens) go_on(item.ret, item.ret_count, item.frame);
    } else if (t.free) {
      item.state = Dfa::kStart;
      add_item(item);
      if ((t.flags[item.state] & Terminal::kAccepts) != 0) {
        go_on(item.ret, item.ret_count, item.frame);
      }
    }
  }
  settle();
  if (items_.size() > levels_.back().items || levels_.back().matched) return true;
  pop();
  return false;
}

bool Matcher::push_after(const Item& item) {
  open_level();
  go_on(item.ret, item.ret_count, item.frame);
  settle();
  if (items_.size() > levels_.back().items || levels_.back().matched) return true;
  pop();
  return false;
}

bool Matcher::push_only(const Item& item) {
  open_level();
  add_item(item);
  return true;
}

}  // namespace mlxcel::text::grammar
