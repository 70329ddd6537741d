// Unigram language-model segmentation (Kudo 2018, arXiv:1804.10959): the most probable sequence of
// entries, by Viterbi.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "text/tokenizer_added.h"
#include "text/tokenizer_vocab.h"

namespace mlxcel::text {

/// Kinds of vocabulary entries, numbered as in SentencePiece's model files and GGUF.
enum class PieceType : uint8_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6
};

struct UnigramOptions {
  TokenId unk = -1;
  bool byte_fallback = false;  // unknown characters as <0xNN>
  // What a user-defined entry is worth: nothing special (Hugging Face), the best score for every
  // byte (SentencePiece), or 0 (llama.cpp, which also uses unused entries).
  enum class Flavor : uint8_t { HuggingFace, SentencePiece, LlamaCpp } flavor = Flavor::HuggingFace;
  std::vector<PieceType> types;  // SentencePiece's kinds of entries by id; empty: all normal
};

class Unigram final : public TokenModel {
 public:
  /// `scores`: log probability of each id.
  Unigram(std::shared_ptr<const Vocab> vocab, std::vector<double> scores, UnigramOptions options);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  struct Node {
    double score = 0;
    int64_t begin = -1;
    TokenId id = -1;
  };
  void relax(Node& node, double score, size_t begin, TokenId id) const;
  void add_matches(std::string_view piece, size_t begin, std::vector<Node>& best) const;
  double score_of(TokenId id, size_t bytes) const;
  void add_unknown(std::string_view text, std::vector<TokenId>& out) const;

  std::shared_ptr<const Vocab> vocab_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double min_score_ = 0, max_score_ = 0;
  std::array<TokenId, 256> bytes_{};  // <0xNN>, or -1
  ByteTrie trie_;
};

}  // namespace mlxcel::text
