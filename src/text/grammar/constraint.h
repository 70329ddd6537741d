// A grammar applied to the tokens of one sequence: which may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace mlxcel::text {

/// The tokens of one tokenizer, arranged for grammars, with masks that all grammars share. Built
/// once for a model; thread-safe.
class GrammarVocab {
 public:
  virtual ~GrammarVocab() = default;
  /// Size of the logits: a mask has (vocab_size + 31) / 32 words.
  virtual int32_t vocab_size() const = 0;
};
/// `stop_ids` end an answer; masks allow them where the grammar is complete. `vocab_size`: length
/// of the logits, at least the tokenizer's; ids without a token are never allowed.
std::shared_ptr<const GrammarVocab> make_grammar_vocab(std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::vector<TokenId> stop_ids,
                                                       int32_t vocab_size);

/// Decides which tokens one sequence may emit next. One thread at a time.
class Constraint {
 public:
  virtual ~Constraint() = default;
  /// False while any token may follow: no mask is needed. accept() must still be called.
  virtual bool active() const = 0;
  /// Sets the bits of the allowed tokens and clears the others. No allocation once warm. Throws
  /// ResourceExhausted when the grammar is too ambiguous to go on.
  virtual void fill_mask(std::span<uint32_t> bits) = 0;
  /// Takes a token; false when it is not allowed, with nothing changed. A stop id is taken only
  /// where may_stop().
  virtual bool accept(TokenId id) = 0;
  /// Undoes the last accepts, at most as many as there were.
  virtual void rollback(int32_t num_tokens) = 0;
  virtual bool may_stop() const = 0;
  /// True when nothing but a stop id may follow.
  virtual bool finished() const = 0;
  /// Tokens that must follow: the text is fixed by the grammar and its tokenization does not depend
  /// on what comes after. Empty when there is a choice. Valid until the next call.
  virtual std::span<const TokenId> forced() = 0;
};

struct ConstraintOptions {
  /// The grammar begins behind this marker (the end of a reasoning block) and white space; until
  /// then all tokens but the stop ids are free. Empty: from the first token on.
  std::string after;
  /// Special tokens that the grammar may spell as text (markers of tool calls).
  std::vector<TokenId> preserved;
};
std::unique_ptr<Constraint> make_constraint(std::shared_ptr<const Grammar> grammar,
                                            std::shared_ptr<const GrammarVocab> vocab,
                                            ConstraintOptions options = {});

}  // namespace mlxcel::text
