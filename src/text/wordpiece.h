// Models over whole words: WordPiece (Wu et al. 2016, arXiv:1609.08144) and plain look-up.
#pragma once

#include <memory>
#include <string>

#include "text/tokenizer_added.h"
#include "text/tokenizer_vocab.h"

namespace mlxcel::text {

/// Greedy longest match from the left; a word that cannot be covered, or has more than `max_chars`
/// characters, is the unknown token.
class WordPiece final : public TokenModel {
 public:
  WordPiece(std::shared_ptr<const Vocab> vocab, std::string unk_token, std::string prefix,
            int64_t max_chars);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  std::shared_ptr<const Vocab> vocab_;
  std::string unk_token_;
  TokenId unk_;
  int64_t max_chars_;
  ByteTrie start_, inside_;  // entries without and with the prefix, the prefix taken off
};

/// WordPiece whose entries carry the mark at the beginning of words, not inside: the word with the
/// mark in front is covered greedily by one set of entries. A word that cannot be covered is
/// unknown.
class MarkedWordPiece final : public TokenModel {
 public:
  MarkedWordPiece(std::shared_ptr<const Vocab> vocab, std::string mark, TokenId unk);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  std::shared_ptr<const Vocab> vocab_;
  std::string mark_;
  TokenId unk_;
  ByteTrie trie_;
};

class WordLevel final : public TokenModel {
 public:
  WordLevel(std::shared_ptr<const Vocab> vocab, std::string unk_token);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  std::shared_ptr<const Vocab> vocab_;
  std::string unk_token_;
  TokenId unk_;
};

}  // namespace mlxcel::text
