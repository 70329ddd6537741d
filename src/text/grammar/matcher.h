// Runs a program over bytes: generalized LL with shared call frames, so that ambiguity costs
// polynomial time and left recursion is allowed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/program.h"

namespace mlxcel::text::grammar {

/// A place inside a terminal, and what follows it: `ret` (a state, with the count of its loop) of
/// the rule that `frame` runs.
struct Item {
  uint32_t terminal = 0, state = 0, count = 0;
  uint32_t ret = 0, ret_count = 0, frame = 0;
  bool operator==(const Item&) const = default;
};

/// One call of a rule at one position, whoever called it.
struct Frame {
  uint32_t rule = 0, position = 0, callers = 0, depth = 0;
  bool completed_here = false;  // matched the empty text
};
struct Caller {
  uint32_t ret = 0, count = 0, frame = 0, next = 0;
};

/// A duplicate filter that costs nothing for small sets.
class SeenSet {
 public:
  void clear() {
    keys_.clear();
    hashed_ = false;
  }
  /// False when the key was there already.
  bool insert(uint64_t a, uint64_t b, uint64_t c);

 private:
  struct Key {
    uint64_t a, b, c;
    bool operator==(const Key&) const = default;
  };
  static uint64_t hash(const Key& k);
  void rehash(size_t size);
  std::vector<Key> keys_;
  std::vector<uint32_t> table_;
  bool hashed_ = false;
};

class Matcher {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kMaxNesting = 1000;  // calls inside each other
  static constexpr size_t kMaxItems = 20'000;    // of one position

  explicit Matcher(const GrammarProgram& program);

  /// Reads a byte; `special`: the first of a special token's. False when nothing in the language
  /// begins so; nothing changes then. Throws ResourceExhausted when the grammar is too ambiguous.
  bool push(uint8_t byte, bool special = false);
  /// Reads a token by its id (Terminal::Kind::Token). As push().
  bool push_token(TokenId id);
  /// Levels above the first; pop() forgets the last push.
  size_t depth() const { return levels_.size() - 1; }
  void pop();
  /// Makes everything up to `depth` levels ago one level, which then cannot be undone singly.
  void squash(size_t from_depth);

  bool matched() const { return levels_.back().matched; }
  std::span<const Item> items() const {
    return {items_.data() + levels_.back().items, items_.size() - levels_.back().items};
  }
  const GrammarProgram& program() const { return program_; }
  const Frame& frame(uint32_t id) const { return frames_[id]; }
  const Caller& caller(uint32_t id) const { return callers_[id]; }

  /// Pushes a level that begins where `item` ends, as if its terminal had just been completed,
  /// without any other item. False when nothing follows.
  bool push_after(const Item& item);

  /// Pushes a level that holds `item` alone.
  bool push_only(const Item& item);

  /// While set, notes how far below `base` frames were completed.
  void watch(uint32_t base);
  uint32_t watched_depth() const { return watched_depth_; }
  void unwatch() { watched_.clear(); }

 private:
  struct Level {
    uint32_t items = 0, frames = 0, callers = 0;
    uint32_t position = 0;
    bool matched = false;
  };
  struct Continuation {
    uint32_t ret, count, frame;
  };
  void open_level();
  void go_on(uint32_t ret, uint32_t count, uint32_t frame);
  void settle();
  void enter(uint32_t rule, uint32_t ret, uint32_t count, uint32_t frame);
  void complete(uint32_t frame);
  void give_back(uint32_t ret, uint32_t count, uint32_t frame, bool empty);
  void add_item(const Item& item);
  void note_completion(uint32_t frame);

  const GrammarProgram& program_;
  std::vector<Item> items_;
  std::vector<Frame> frames_;
  std::vector<Caller> callers_;
  std::vector<Level> levels_;
  std::vector<uint32_t> frame_of_rule_;
  std::vector<Continuation> work_;
  SeenSet seen_items_, seen_continuations_;
  std::vector<std::pair<uint32_t, uint32_t>> watched_;  // frame, how far below the base
  uint32_t watched_depth_ = 0;
};

}  // namespace mlxcel::text::grammar
