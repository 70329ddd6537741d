// SentencePiece's BPE: neighbours merge when their joint text is an entry, the best score first.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "text/tokenizer_added.h"
#include "text/tokenizer_vocab.h"
#include "text/unigram.h"

namespace mlxcel::text {

struct SentencePieceBpeOptions {
  std::vector<PieceType> types;  // by id; empty: all normal
  TokenId unk = -1;
  bool byte_fallback = false;
  bool freeze_user_defined = false;  // such entries are cut out first and never merged
  bool merge_all_types = false;      // llama.cpp lets control entries come out of merges as well
};

class SentencePieceBpe final : public TokenModel {
 public:
  SentencePieceBpe(std::shared_ptr<const Vocab> vocab, std::vector<float> scores,
                   SentencePieceBpeOptions options);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  struct Symbol {
    int32_t previous, next;
    uint32_t begin, length;  // length 0: merged into its left neighbour
    TokenId candidate = -1;  // entry that this and the next symbol would make
    bool frozen = false;
  };
  struct Work;
  TokenId mergeable(std::string_view text) const;
  PieceType type_of(TokenId id) const;
  void offer(Work& work, int32_t left) const;
  void emit(const Work& work, std::string_view text, std::vector<TokenId>& out) const;
  void merge(Work& work) const;

  std::shared_ptr<const Vocab> vocab_;
  std::vector<float> scores_;
  SentencePieceBpeOptions options_;
  std::array<TokenId, 256> bytes_{};
  ByteTrie user_defined_;
  bool has_unused_ = false;
};

}  // namespace mlxcel::text
