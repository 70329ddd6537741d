// Which tokens may follow an item, with everything that can be shared kept: per terminal state what
// happens inside the terminal (for all grammars), and per context the finished set.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/constraint.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_trie.h"

namespace mlxcel::text::grammar {

/// From one state of a terminal: what tokens do before the terminal ends.
struct StateTable {
  TokenSet inside;       // tokens that end inside the terminal
  TokenTrie exits;       // what is left of tokens behind each possible end of the terminal
  bool complete = true;  // false: too many exits to list; the whole vocabulary must be walked
  std::vector<TrieWord> counted;  // counted terminals: tokens inside, by the units they need
  size_t bytes = 0;
};

/// The tables of one terminal, made when they are first asked for. Thread-safe.
class TerminalTables {
 public:
  TerminalTables(Terminal terminal, const TokenTrie& vocab, size_t vocab_size);
  ~TerminalTables();
  const Terminal& terminal() const { return terminal_; }
  const StateTable& at(uint32_t state);
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<StateTable> make(uint32_t state) const;
  const Terminal terminal_;
  const TokenTrie& vocab_;  // of the GrammarVocab, which owns this
  const size_t vocab_size_;
  std::mutex mutex_;  // guards the making of tables
  std::vector<std::atomic<StateTable*>> tables_;
  std::atomic<size_t> bytes_{0};
};

class MaskCache;

class Vocab final : public GrammarVocab {
 public:
  Vocab(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> stop_ids,
        int32_t vocab_size);
  int32_t vocab_size() const override { return static_cast<int32_t>(vocab_size_); }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenTrie& trie() const { return trie_; }
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }
  bool is_stop(TokenId id) const;
  bool is_special(TokenId id) const;                      // never text; stop ids included
  const TokenSet& specials() const { return specials_; }  // without stop ids
  std::string_view bytes(TokenId id) const;

  std::shared_ptr<TerminalTables> tables(const Terminal& terminal) const;
  std::shared_ptr<MaskCache> masks(std::shared_ptr<const Grammar> grammar) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<TokenId> stop_ids_;
  size_t vocab_size_;
  std::string storage_;  // bytes of all tokens
  TokenTrie trie_;
  TokenSet specials_;
  std::vector<uint8_t> special_;
  mutable std::mutex mutex_;  // guards the two below
  mutable std::unordered_multimap<uint64_t, std::shared_ptr<TerminalTables>> tables_;
  mutable std::list<std::shared_ptr<MaskCache>> recent_;
};

/// Finished sets of one grammar. Thread-safe.
class MaskCache {
 public:
  MaskCache(std::shared_ptr<const Grammar> grammar, const Vocab& vocab);
  const Grammar& grammar() const { return *grammar_; }

  /// Adds to `bits` the tokens that may follow `item` of `matcher`, which comes back unchanged.
  void add_tokens(Matcher& matcher, const Item& item, std::span<uint32_t> bits);

 private:
  struct Key {
    uint64_t a = 0, b = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.a ^ (k.b * 0x9E3779B97F4A7C15ULL); }
  };
  struct Entry {
    TokenSet set;
  };
  TerminalTables& tables(uint32_t terminal);
  uint32_t count_key(uint32_t count, uint32_t min, uint32_t max) const;
  uint32_t return_key(uint32_t ret, uint32_t count) const;
  Key base_key(const Item& item) const;
  /// False when the frames below are too entangled for a key.
  bool context_key(const Matcher& matcher, const Item& item, uint32_t depth, Key& key) const;
  bool mix_frame(const Matcher& matcher, uint32_t frame, uint32_t depth, Key& key,
                 int& budget) const;
  std::vector<TokenId> compute(Matcher& matcher, const Item& item);
  void walk(Matcher& matcher, const TokenTrie& trie, const Terminal& terminal, uint32_t count,
            std::vector<TokenId>& out);

  const std::shared_ptr<const Grammar> grammar_;
  const GrammarProgram& program_;
  const Vocab& vocab_;
  std::mutex tables_mutex_;  // guards the filling of tables_
  std::vector<std::shared_ptr<TerminalTables>> owned_;
  std::vector<std::atomic<TerminalTables*>> tables_;
  std::shared_mutex mutex_;                            // guards what follows
  std::unordered_map<Key, uint32_t, KeyHash> depths_;  // base key -> frames that sets depend on
  std::unordered_map<Key, std::shared_ptr<const TokenSet>, KeyHash> sets_;
  size_t bytes_ = 0;
};

}  // namespace mlxcel::text::grammar
