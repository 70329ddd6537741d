// BPE over bytes by the rank of the joint text (github.com/openai/tiktoken): no list of merges.
#pragma once

#include <array>
#include <memory>

#include "text/tokenizer_vocab.h"

namespace mlxcel::text {

class RankBpe final : public TokenModel {
 public:
  /// Entries are byte strings; a lower id merges first. Throws InvalidArgument when one of the 256
  /// single bytes is missing.
  explicit RankBpe(std::shared_ptr<const Vocab> vocab);
  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

 private:
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  template <class Queue>
  void merge_all(std::string_view piece, Queue& queue, EncodeScratch& scratch) const;
  void merge_long(std::string_view piece, EncodeScratch& scratch, std::vector<TokenId>& out) const;
  std::shared_ptr<const Vocab> vocab_;
};

}  // namespace mlxcel::text
