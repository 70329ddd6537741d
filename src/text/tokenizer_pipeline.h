// The tokenizer that all vocabulary formats become: added tokens, normalizer, pre-tokenizer, model,
// post-processor and decoder in a row.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"
#include "text/tokenizer_vocab.h"

namespace mlxcel::text {

/// Stands for the encoded text in TokenizerParts::layout.
constexpr TokenId kSequencePlace = -1;

/// What becomes of bytes that are no UTF-8: passed to a model that takes raw bytes, or replaced by
/// U+FFFD, once for each maximal part of a character or once for each byte.
enum class IllFormed : uint8_t { Pass, Replace, ReplaceEachByte };

struct TokenizerParts {
  std::unique_ptr<TokenModel> model;
  IllFormed ill_formed = IllFormed::Replace;
  std::unique_ptr<Normalizer> normalizer;
  PreTokenizers pre_tokenizers;
  AddedTokens added{AddedTokens::Order::LeftmostLongest};             // in the text as it is
  AddedTokens added_normalized{AddedTokens::Order::LeftmostLongest};  // in the normalized text
  std::vector<AddedToken> added_tokens;
  /// What decode() starts from when that is not the content: by id.
  std::vector<std::pair<TokenId, std::string>> decode_texts;
  std::vector<TokenId> layout = {kSequencePlace};  // with special tokens
  Decoders decoders;
  std::optional<TokenId> bos, eos;
};

class PipelineTokenizer;
/// A SentencePiece model file's bytes. Throws Corrupt, InvalidArgument or Unsupported.
std::unique_ptr<PipelineTokenizer> read_sentencepiece(std::string_view bytes);

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);

  std::vector<TokenId> encode(std::string_view utf8, const EncodeOptions& options) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::unique_ptr<TokenStream> stream(bool skip_special) const override;
  std::string_view bytes(TokenId id) const override;
  std::string_view token(TokenId id) const override;
  std::optional<TokenId> id_of(std::string_view token) const override;
  bool is_special(TokenId id) const override;
  int32_t vocab_size() const override { return size_; }
  std::optional<TokenId> bos_id() const override { return parts_.bos; }
  std::optional<TokenId> eos_id() const override { return parts_.eos; }
  bool strips_leading_space() const override { return parts_.decoders.strips_leading_space(); }

  /// For loaders that learn more from other files.
  TokenizerParts& parts() { return parts_; }

 private:
  class Stream;
  void encode_text(std::string_view text, bool escaped, const EncodeOptions& options,
                   std::vector<TokenId>& out) const;
  void mark_special();
  std::string_view decode_text(TokenId id) const;

  TokenizerParts parts_;
  Vocab added_vocab_;
  TokenId size_ = 0;
  std::vector<bool> special_;
  mutable std::once_flag bytes_once_;
  mutable std::string bytes_arena_;
  mutable std::vector<size_t> bytes_begin_;
};

}  // namespace mlxcel::text
