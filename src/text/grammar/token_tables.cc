// Tables of terminals over a vocabulary, and the vocabulary itself.
#include <algorithm>

#include "base/error.h"
#include "text/grammar/token_masks.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxExits = 2'000'000;
constexpr size_t kMaxTableBytes = size_t{256} << 20;
constexpr size_t kRecentGrammars = 64;

}  // namespace

TerminalTables::TerminalTables(Terminal terminal, const TokenTrie& vocab, size_t vocab_size)
    : terminal_(std::move(terminal)),
      vocab_(vocab),
      vocab_size_(vocab_size),
      tables_(std::max<size_t>(terminal_.dfa.num_states(), 2)) {}

TerminalTables::~TerminalTables() {
  for (const auto& t : tables_) delete t.load();
}

const StateTable& TerminalTables::at(uint32_t state) {
  if (const StateTable* t = tables_[state].load(std::memory_order_acquire)) return *t;
  const std::lock_guard lock(mutex_);
  if (const StateTable* t = tables_[state].load(std::memory_order_acquire)) return *t;
  std::unique_ptr<StateTable> made = make(state);
  bytes_ += made->bytes;
  StateTable* const raw = made.release();
  tables_[state].store(raw, std::memory_order_release);
  return *raw;
}

std::unique_ptr<StateTable> TerminalTables::make(uint32_t start) const {
  auto out = std::make_unique<StateTable>();
  const bool counted = terminal_.kind == Terminal::Kind::Counted;
  const Dfa& dfa = terminal_.dfa;
  std::vector<TokenId> inside;
  std::vector<TrieWord> exits;
  std::vector<uint32_t> states(size_t{vocab_.longest} + 2);
  std::vector<uint32_t> units(states.size(), 0);
  std::vector<uint32_t> ends;  // depths at which the terminal may end, on the current path
  states[0] = start;
  // Tokens at and below `node`, which leave the terminal after `length` of their bytes.
  const auto leave = [&](uint32_t node, uint32_t length, uint32_t num_units) {
    const uint32_t last = vocab_.words_begin[vocab_.skip[node]];
    for (uint32_t w = vocab_.words_begin[node]; w < last; ++w) {
      if (exits.size() >= kMaxExits) {
        out->complete = false;
        return;
      }
      exits.push_back({vocab_.words[w].bytes.substr(length), vocab_.words[w].token, num_units});
    }
  };
  for (uint32_t i = 0; i < vocab_.size();) {
    const uint32_t depth = vocab_.depth[i];
    const uint8_t byte = vocab_.byte[i];
    const uint32_t s = states[depth];
    if (counted && s == Dfa::kStart && byte == terminal_.close) {
      leave(i, depth + 1, units[depth]);
      i = vocab_.skip[i];
      continue;
    }
    while (!ends.empty() && ends.back() > depth) ends.pop_back();
    const uint32_t t = dfa.empty() ? Dfa::kDead : dfa.step(s, byte);
    if (t == Dfa::kDead) {
      for (const uint32_t end : ends) leave(i, end, 0);
      i = vocab_.skip[i];
      continue;
    }
    const bool accepts = (terminal_.flags[t] & Terminal::kAccepts) != 0;
    states[depth + 1] = counted && accepts ? Dfa::kStart : t;
    units[depth + 1] = units[depth] + (counted && accepts ? 1 : 0);
    if (!counted && accepts) ends.push_back(depth + 1);
    for (uint32_t w = vocab_.words_begin[i]; w < vocab_.words_end[i]; ++w) {
      const TokenId id = vocab_.words[w].token;
      if (counted) {
        const bool open = states[depth + 1] != Dfa::kStart;
        out->counted.push_back({{}, id, units[depth + 1] + (open ? 1U : 0U)});
      } else {
        inside.push_back(id);
      }
    }
    ++i;
  }
  if (counted) {
    for (const TrieWord& w : out->counted) inside.push_back(w.token);
    std::sort(out->counted.begin(), out->counted.end(),
              [](const TrieWord& a, const TrieWord& b) { return a.units < b.units; });
  }
  out->inside = TokenSet(std::move(inside), vocab_size_);
  if (!out->complete) exits.clear();
  out->exits = make_trie(std::move(exits));
  out->bytes = out->inside.bytes() + out->counted.size() * sizeof(TrieWord) +
               out->exits.words.size() * sizeof(TrieWord) + size_t{out->exits.size()} * 15;
  return out;
}

Vocab::Vocab(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> stop_ids,
             int32_t vocab_size)
    : tokenizer_(std::move(tokenizer)),
      stop_ids_(std::move(stop_ids)),
      vocab_size_(static_cast<size_t>(std::max(vocab_size, tokenizer_->vocab_size()))) {
  special_.assign(vocab_size_, 0);
  std::vector<TokenId> specials;
  std::vector<std::pair<size_t, size_t>> places(vocab_size_);
  for (size_t i = 0; i < static_cast<size_t>(tokenizer_->vocab_size()); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (is_stop(id) || tokenizer_->is_special(id)) {
      special_[i] = 1;
      if (!is_stop(id)) specials.push_back(id);
      continue;
    }
    const std::string_view bytes = tokenizer_->bytes(id);
    places[i] = {storage_.size(), bytes.size()};
    storage_ += bytes;
  }
  std::vector<TrieWord> words;
  for (size_t i = 0; i < vocab_size_; ++i) {
    if (places[i].second == 0) continue;
    words.push_back({std::string_view(storage_).substr(places[i].first, places[i].second),
                     static_cast<TokenId>(i), 0});
  }
  trie_ = make_trie(std::move(words));
  specials_ = TokenSet(std::move(specials), vocab_size_);
}

bool Vocab::is_stop(TokenId id) const { return std::ranges::count(stop_ids_, id) > 0; }
bool Vocab::is_special(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < special_.size() &&
         special_[static_cast<size_t>(id)] != 0;
}
std::string_view Vocab::bytes(TokenId id) const { return tokenizer_->bytes(id); }

std::shared_ptr<TerminalTables> Vocab::tables(const Terminal& terminal) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = tables_.equal_range(terminal.hash);
  for (auto it = first; it != last; ++it) {
    if (it->second->terminal() == terminal) return it->second;
  }
  size_t total = 0;
  for (const auto& [hash, t] : tables_) total += t->bytes();
  if (total > kMaxTableBytes) tables_.clear();  // grammars in use keep theirs
  auto made = std::make_shared<TerminalTables>(terminal, trie_, vocab_size_);
  tables_.emplace(terminal.hash, made);
  return made;
}

std::shared_ptr<MaskCache> Vocab::masks(std::shared_ptr<const Grammar> grammar) const {
  const std::lock_guard lock(mutex_);
  for (auto it = recent_.begin(); it != recent_.end(); ++it) {
    if ((*it)->grammar().program().id == grammar->program().id) {
      recent_.splice(recent_.begin(), recent_, it);
      return recent_.front();
    }
  }
  recent_.push_front(std::make_shared<MaskCache>(std::move(grammar), *this));
  if (recent_.size() > kRecentGrammars) recent_.pop_back();
  return recent_.front();
}

}  // namespace mlxcel::text::grammar
