// Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909) with the options of Hugging Face
// tokenizers.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "text/tokenizer_vocab.h"

namespace mlxcel::text {

/// Merge of two neighbouring symbols into a third; a lower rank goes first.
struct BpeMerge {
  uint32_t rank = 0;
  TokenId result = -1;
};

/// Hash table from (left, right) to the merge.
class BpeMerges {
 public:
  void reserve(size_t count);
  void add(TokenId left, TokenId right, BpeMerge merge);  // the last of equal pairs wins
  const BpeMerge* find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const uint64_t key = key_of(left, right);
    for (size_t at = start_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return &slot.merge;
      if (slot.key == kFree) return nullptr;
    }
  }
  size_t size() const { return used_; }
  /// Highest rank + 1.
  size_t num_ranks() const { return num_ranks_; }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    BpeMerge merge;
  };
  static uint64_t key_of(TokenId l, TokenId r) {
    return uint64_t{static_cast<uint32_t>(l)} << 32 | static_cast<uint32_t>(r);
  }
  size_t start_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ULL) >> shift_; }
  void grow(size_t slots);

  std::vector<Slot> slots_;
  size_t mask_ = 0, used_ = 0, num_ranks_ = 0;
  int shift_ = 64;
};

struct BpeOptions {
  std::string unk_token, continuing_subword_prefix, end_of_word_suffix;
  bool has_unk = false;
  bool fuse_unk = false;
  bool byte_fallback = false;  // <0x00>..<0xFF> before the unknown token
  bool ignore_merges = false;  // a piece that is an entry is taken whole
};

class Bpe final : public TokenModel {
 public:
  Bpe(std::shared_ptr<const Vocab> vocab, BpeMerges merges, BpeOptions options);

  void encode(std::string_view piece, EncodeScratch& scratch,
              std::vector<TokenId>& out) const override;
  const Vocab& vocab() const override { return *vocab_; }

  /// Makes encode() take raw bytes in place of GPT-2's byte alphabet, which saves the pre-tokenizer
  /// that step. False, changing nothing, when the vocabulary lacks one of the 256 bytes or the
  /// options need characters.
  bool use_raw_bytes();

 private:
  enum Known : uint8_t { kUnknown, kWhole, kSplit };
  void initial_symbols(std::string_view piece, EncodeScratch& scratch) const;
  void add_unknown(std::string_view symbol, bool& open_unk, EncodeScratch& scratch) const;
  void merge_short(EncodeScratch& scratch, std::vector<TokenId>& out) const;
  template <class Queue>
  void merge_all(Queue& queue, EncodeScratch& scratch) const;
  void merge_long(EncodeScratch& scratch, std::vector<TokenId>& out) const;
  void encode_word(std::string_view piece, EncodeScratch& scratch, std::vector<TokenId>& out) const;

  std::shared_ptr<const Vocab> vocab_;
  Vocab raw_;  // the same entries keyed by raw bytes, when use_raw_bytes()
  const Vocab* keys_;
  bool raw_bytes_ = false;
  BpeMerges merges_;
  BpeOptions options_;
  TokenId unk_ = -1;
  std::array<TokenId, 256> byte_symbol_{};  // raw bytes: the symbol of each byte
  std::array<TokenId, 256> fallback_{};     // <0xNN>, or -1
  // Whether an entry is what encoding its own text gives; found out on first use, so every thread
  // that writes a cell writes the same value.
  std::unique_ptr<std::atomic<uint8_t>[]> known_;
};

}  // namespace mlxcel::text
