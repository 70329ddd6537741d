#include "text/grammar/token_masks.h"

#include <algorithm>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxSetBytes = size_t{64} << 20;  // of one grammar
constexpr int kKeyBudget = 64;                     // callers looked at for one key

void mix(uint64_t& h, uint64_t v) {
  h ^= v;
  h *= 0x9E3779B97F4A7C15ULL;
  h ^= h >> 29;
}

}  // namespace

MaskCache::MaskCache(std::shared_ptr<const Grammar> grammar, const Vocab& vocab)
    : grammar_(std::move(grammar)),
      program_(grammar_->program()),
      vocab_(vocab),
      owned_(program_.terminals.size()),
      tables_(program_.terminals.size()) {}

TerminalTables& MaskCache::tables(uint32_t terminal) {
  if (TerminalTables* t = tables_[terminal].load(std::memory_order_acquire)) return *t;
  const std::lock_guard lock(tables_mutex_);
  if (!owned_[terminal]) owned_[terminal] = vocab_.tables(program_.terminals[terminal]);
  tables_[terminal].store(owned_[terminal].get(), std::memory_order_release);
  return *owned_[terminal];
}

// A count that no token can carry to a bound is as good as any other such count.
uint32_t MaskCache::count_key(uint32_t count, uint32_t min, uint32_t max) const {
  const uint32_t reach = vocab_.trie().longest + 1;
  if (count < min) return min - count > reach ? UINT32_MAX : count;
  if (max == UINT32_MAX || max - count > reach) return min;
  return count;
}

uint32_t MaskCache::return_key(uint32_t ret, uint32_t count) const {
  const int32_t loop = program_.states[ret].loop;
  if (loop < 0) return 0;
  const Loop& l = program_.loops[static_cast<size_t>(loop)];
  return count_key(count, l.min, l.max);
}

MaskCache::Key MaskCache::base_key(const Item& item) const {
  const Terminal& t = program_.terminals[item.terminal];
  Key key{1, 2};
  const uint32_t count =
      t.kind == Terminal::Kind::Counted ? count_key(item.count, t.min, t.max) : 0;
  for (uint64_t* h : {&key.a, &key.b}) {
    mix(*h, (uint64_t{item.terminal} << 32) | item.state);
    mix(*h, (uint64_t{count} << 32) | item.ret);
    mix(*h, return_key(item.ret, item.ret_count));
  }
  return key;
}

bool MaskCache::mix_frame(const Matcher& matcher, uint32_t frame, uint32_t depth, Key& key,
                          int& budget) const {
  if (depth == 0) return true;
  uint64_t num = 0;
  for (uint32_t c = matcher.frame(frame).callers; c != 0; c = matcher.caller(c).next) {
    if (--budget < 0) return false;
    const Caller& caller = matcher.caller(c);
    const uint64_t v = (uint64_t{caller.ret} << 32) | return_key(caller.ret, caller.count);
    mix(key.a, v);
    mix(key.b, v + 1);
    if (!mix_frame(matcher, caller.frame, depth - 1, key, budget)) return false;
    ++num;
  }
  mix(key.a, num);
  mix(key.b, num + (frame == 0 ? 77 : 0));  // the end of the whole text
  return true;
}

bool MaskCache::context_key(const Matcher& matcher, const Item& item, uint32_t depth,
                            Key& key) const {
  key = base_key(item);
  mix(key.b, depth);
  int budget = kKeyBudget;
  return mix_frame(matcher, item.frame, depth, key, budget);
}

void MaskCache::add_tokens(Matcher& matcher, const Item& item, std::span<uint32_t> bits) {
  const Key base = base_key(item);
  Key key;
  {
    const std::shared_lock lock(mutex_);
    const auto depth = depths_.find(base);
    if (depth != depths_.end() && context_key(matcher, item, depth->second, key)) {
      const auto it = sets_.find(key);
      if (it != sets_.end()) return it->second->add_to(bits);
    }
  }
  matcher.watch(item.frame);
  std::vector<TokenId> ids = compute(matcher, item);
  const uint32_t needed = matcher.watched_depth();
  matcher.unwatch();
  const auto set =
      std::make_shared<const TokenSet>(std::move(ids), static_cast<size_t>(vocab_.vocab_size()));
  set->add_to(bits);
  const std::unique_lock lock(mutex_);
  uint32_t& depth = depths_[base];
  depth = std::max(depth, needed);
  if (!context_key(matcher, item, depth, key)) return;
  if (bytes_ > kMaxSetBytes) {
    sets_.clear();
    bytes_ = 0;
  }
  bytes_ += set->bytes() + 64;
  sets_.emplace(key, set);
}

std::vector<TokenId> MaskCache::compute(Matcher& matcher, const Item& item) {
  const Terminal& t = program_.terminals[item.terminal];
  std::vector<TokenId> out;
  if (t.kind == Terminal::Kind::Token) {
    if (!t.other_tokens) return t.tokens;
    for (TokenId id = 0; id < vocab_.tokenizer().vocab_size(); ++id) {
      if (!vocab_.is_stop(id) && std::ranges::find(t.tokens, id) == t.tokens.end()) {
        out.push_back(id);
      }
    }
    return out;
  }
  const StateTable& table = tables(item.terminal).at(item.state);
  std::vector<uint32_t> bits((static_cast<size_t>(vocab_.vocab_size()) + 31) / 32, 0);
  uint32_t room = UINT32_MAX;
  if (t.kind == Terminal::Kind::Counted && t.max != UINT32_MAX) room = t.max - item.count;
  if (t.kind == Terminal::Kind::Counted && room <= vocab_.trie().longest) {
    for (const TrieWord& w : table.counted) {
      if (w.units > room) break;
      out.push_back(w.token);
    }
  } else {
    table.inside.add_to(bits);
  }
  if (t.free) vocab_.specials().add_to(bits);
  if (matcher.push_after(item)) {
    if (table.complete) {
      walk(matcher, table.exits, t, item.count, out);
    }
    matcher.pop();
  }
  if (!table.complete) {
    const size_t base = matcher.depth();
    if (matcher.push_only(item)) {
      walk(matcher, vocab_.trie(), t, 0, out);
      while (matcher.depth() > base) matcher.pop();
    }
  }
  for (size_t w = 0; w < bits.size(); ++w) {
    for (uint32_t b = bits[w]; b != 0; b &= b - 1) {
      out.push_back(static_cast<TokenId>(w * 32 + static_cast<size_t>(__builtin_ctz(b))));
    }
  }
  return out;
}

// Adds the tokens of `trie` whose bytes the matcher can read from where it stands.
void MaskCache::walk(Matcher& matcher, const TokenTrie& trie, const Terminal& terminal,
                     uint32_t count, std::vector<TokenId>& out) {
  const size_t base = matcher.depth();
  const bool counted = terminal.kind == Terminal::Kind::Counted && &trie != &vocab_.trie();
  const auto take = [&](uint32_t begin, uint32_t end) {
    for (uint32_t w = begin; w < end; ++w) {
      const uint64_t units = uint64_t{count} + trie.words[w].units;
      if (counted && (units < terminal.min || units > terminal.max)) continue;
      out.push_back(trie.words[w].token);
    }
  };
  take(0, trie.num_empty);
  for (uint32_t i = 0; i < trie.size();) {
    while (matcher.depth() - base > trie.depth[i]) matcher.pop();
    if (!matcher.push(trie.byte[i])) {
      i = trie.skip[i];
      continue;
    }
    take(trie.words_begin[i], trie.words_end[i]);
    ++i;
  }
  while (matcher.depth() > base) matcher.pop();
}

}  // namespace mlxcel::text::grammar
