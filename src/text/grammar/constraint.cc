#include "text/grammar/constraint.h"

#include <algorithm>

#include "base/error.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_masks.h"

namespace mlxcel::text {

namespace {

using grammar::Dfa;
using grammar::Item;
using grammar::MaskCache;
using grammar::Matcher;
using grammar::Terminal;
using grammar::Vocab;

constexpr size_t kMaxForcedBytes = 256;
constexpr size_t kMinForcedBytes = 2;  // one byte alone is a token's start, not a token

void set_bit(std::span<uint32_t> bits, TokenId id, bool on) {
  uint32_t& word = bits[static_cast<size_t>(id) >> 5];
  const uint32_t bit = uint32_t{1} << (static_cast<uint32_t>(id) & 31);
  word = on ? word | bit : word & ~bit;
}

class GrammarConstraint final : public Constraint {
 public:
  GrammarConstraint(const std::shared_ptr<const Grammar>& grammar,
                    std::shared_ptr<const GrammarVocab> vocab, std::vector<TokenId> preserved)
      : vocab_(std::move(vocab)),
        v_(static_cast<const Vocab&>(*vocab_)),
        masks_(v_.masks(grammar)),
        matcher_(masks_->grammar().program()),
        preserved_(std::move(preserved)) {
    std::erase_if(preserved_, [&](TokenId id) { return !v_.is_special(id) || v_.is_stop(id); });
  }

  bool active() const override { return true; }

  void fill_mask(std::span<uint32_t> bits) override {
    MLXCEL_CHECK(bits.size() == (static_cast<size_t>(v_.vocab_size()) + 31) / 32,
                 "a mask of another vocabulary");
    std::fill(bits.begin(), bits.end(), 0U);
    if (!stopped_) {
      items_.assign(matcher_.items().begin(), matcher_.items().end());
      for (const Item& item : items_) masks_->add_tokens(matcher_, item, bits);
      for (const TokenId id : preserved_) set_bit(bits, id, try_special(v_.bytes(id)));
    }
    for (const TokenId id : v_.stop_ids()) set_bit(bits, id, may_stop());
  }

  bool accept(TokenId id) override {
    if (stopped_ || id < 0 || id >= v_.vocab_size()) return false;
    if (v_.is_stop(id)) {
      if (!may_stop()) return false;
      stopped_ = true;
      return true;
    }
    const bool preserved = std::ranges::find(preserved_, id) != preserved_.end();
    if (has_token_items() && matcher_.push_token(id)) return true;
    if (v_.is_special(id) && !preserved) return matcher_.push_token(id);
    const std::string_view bytes = v_.bytes(id);
    if (bytes.empty()) return false;
    const size_t before = matcher_.depth();
    if (!push_bytes(bytes, preserved)) return false;
    matcher_.squash(before + 1);
    return true;
  }

  void rollback(int32_t num_tokens) override {
    for (int32_t i = 0; i < num_tokens; ++i) {
      if (stopped_) {
        stopped_ = false;
        continue;
      }
      MLXCEL_CHECK(matcher_.depth() > 0, "more tokens undone than were taken");
      matcher_.pop();
    }
  }

  bool may_stop() const override { return stopped_ || matcher_.matched(); }
  bool finished() const override { return stopped_ || matcher_.items().empty(); }

  std::span<const TokenId> forced() override {
    forced_.clear();
    const std::string text = forced_text();
    if (text.size() >= kMinForcedBytes) tokenize_forced(text);
    return forced_;
  }

 private:
  bool has_token_items() const {
    return std::ranges::any_of(matcher_.items(), [&](const Item& i) {
      return matcher_.program().terminals[i.terminal].kind == Terminal::Kind::Token;
    });
  }
  // Pushes all of `bytes` or nothing.
  bool push_bytes(std::string_view bytes, bool special) {
    const size_t before = matcher_.depth();
    for (const char c : bytes) {
      const bool first = matcher_.depth() == before;
      if (!matcher_.push(static_cast<uint8_t>(c), special && first)) {
        while (matcher_.depth() > before) matcher_.pop();
        return false;
      }
    }
    return true;
  }
  bool try_special(std::string_view bytes) {
    if (bytes.empty()) return false;
    const size_t before = matcher_.depth();
    if (!push_bytes(bytes, true)) return false;
    while (matcher_.depth() > before) matcher_.pop();
    return true;
  }

  /// The only byte that may follow; -1 when there is a choice.
  int only_byte() const {
    if (matcher_.matched()) return -1;
    int found = -1;
    for (const Item& item : matcher_.items()) {
      const Terminal& t = matcher_.program().terminals[item.terminal];
      if (t.kind != Terminal::Kind::Bytes || t.free) return -1;
      for (int b = 0; b < 256; ++b) {
        if (t.dfa.step(item.state, static_cast<uint8_t>(b)) == Dfa::kDead) continue;
        if (found >= 0 && found != b) return -1;
        found = b;
      }
    }
    return found;
  }

  std::string forced_text() {
    std::string text;
    const size_t before = matcher_.depth();
    while (text.size() < kMaxForcedBytes && !stopped_) {
      const int b = only_byte();
      if (b < 0 || !matcher_.push(static_cast<uint8_t>(b))) break;
      text += static_cast<char>(b);
    }
    while (matcher_.depth() > before) matcher_.pop();
    return text;
  }

  // The tokens of `text` that stay the same whatever follows it: a token is left out when a longer
  // one could take its place.
  void tokenize_forced(const std::string& text) {
    const std::vector<TokenId> ids =
        v_.tokenizer().encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
    size_t at = 0;
    for (const TokenId id : ids) {
      const std::string_view bytes = v_.bytes(id);
      if (v_.is_special(id) || bytes.empty() || text.compare(at, bytes.size(), bytes) != 0) break;
      if (may_extend(std::string_view(text).substr(at))) break;
      forced_.push_back(id);
      at += bytes.size();
    }
  }

  // Whether the vocabulary has a token that begins with all of `rest` and goes on.
  bool may_extend(std::string_view rest) const {
    const grammar::TokenTrie& trie = v_.trie();
    const auto less = [](const grammar::TrieWord& w, std::string_view r) { return w.bytes < r; };
    auto it = std::lower_bound(trie.words.begin(), trie.words.end(), rest, less);
    while (it != trie.words.end() && it->bytes == rest) ++it;
    return it != trie.words.end() && it->bytes.starts_with(rest);
  }

  const std::shared_ptr<const GrammarVocab> vocab_;  // shared by the constraints of a model
  const Vocab& v_;
  const std::shared_ptr<MaskCache> masks_;  // shared by the requests with this grammar
  Matcher matcher_;
  std::vector<TokenId> preserved_;
  std::vector<Item> items_;
  std::vector<TokenId> forced_;
  bool stopped_ = false;
};

}  // namespace

std::shared_ptr<const GrammarVocab> make_grammar_vocab(std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::vector<TokenId> stop_ids,
                                                       int32_t vocab_size) {
  return std::make_shared<const Vocab>(std::move(tokenizer), std::move(stop_ids), vocab_size);
}

std::unique_ptr<Constraint> make_constraint(std::shared_ptr<const Grammar> grammar,
                                            std::shared_ptr<const GrammarVocab> vocab,
                                            ConstraintOptions options) {
  if (!options.after.empty()) {
    grammar = grammar->behind(options.after);
    // The marker may be spelled with special tokens.
    const auto& v = static_cast<const Vocab&>(*vocab);
    for (TokenId id = 0; id < v.tokenizer().vocab_size(); ++id) {
      if (!v.is_special(id) || v.is_stop(id) || v.bytes(id).empty()) continue;
      if (options.after.find(v.bytes(id)) != std::string::npos) options.preserved.push_back(id);
    }
  }
  return std::make_unique<GrammarConstraint>(grammar, std::move(vocab),
                                             std::move(options.preserved));
}

}  // namespace mlxcel::text
