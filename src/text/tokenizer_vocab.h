// The table of a tokenizer's entries: text by id and id by text.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mlxcel::text {

/// Ids above this are refused when a vocabulary is read: no published one comes near.
constexpr TokenId kMaxTokenId = (1 << 24) - 1;

/// A fast hash of short byte strings (two multiply-and-fold rounds up to 16 bytes).
inline uint64_t hash_bytes(std::string_view s) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15ULL, kB = 0xC2B2AE3D27D4EB4FULL;
  const auto load = [](const char* p, size_t n) {
    uint64_t v = 0;
    std::memcpy(&v, p, n);
    return v;
  };
  const auto fold = [](uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const size_t n = s.size();
  const char* p = s.data();
  uint64_t h = n * kA;
  size_t i = 0;
  for (; n - i > 16; i += 16) h = fold(h ^ load(p + i, 8) ^ kA, load(p + i + 8, 8) ^ kB);
  const size_t rest = n - i;
  uint64_t a = 0, b = 0;
  if (rest >= 8) {
    a = load(p + i, 8);
    b = load(p + n - 8, 8);
  } else if (rest >= 4) {
    a = load(p + i, 4);
    b = load(p + n - 4, 4);
  } else if (rest > 0) {
    a = static_cast<uint8_t>(p[i]) | uint64_t{static_cast<uint8_t>(p[i + rest / 2])} << 8 |
        uint64_t{static_cast<uint8_t>(p[n - 1])} << 16;
  }
  return fold(a ^ h ^ kB, b ^ kA);
}

/// Append-only map of byte strings to ids with all text in one block. Ids may have gaps.
class Vocab {
 public:
  /// Prepares for `count` entries.
  void reserve(size_t count);
  /// Adds an entry. An id given twice keeps its last text; a text given twice its last id. Throws
  /// InvalidArgument for a negative id or one above kMaxTokenId.
  void add(TokenId id, std::string_view text);
  /// The id of `text`, or -1.
  TokenId find(std::string_view text) const {
    if (slots_.empty()) return -1;
    const uint64_t h = hash_bytes(text);
    const auto tag = static_cast<uint32_t>(h >> 32);
    for (size_t at = h & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return -1;
      if (slot.tag == tag && slot_text(slot) == text) return slot.id;
    }
  }
  /// The text of `id`; empty when there is none.
  std::string_view text(TokenId id) const {
    if (id < 0 || id >= size()) return {};
    const Entry& e = entries_[static_cast<size_t>(id)];
    return e.length == kAbsent ? std::string_view()
                               : std::string_view(arena_).substr(e.offset, e.length);
  }
  bool contains(TokenId id) const {
    return id >= 0 && id < size() && entries_[static_cast<size_t>(id)].length != kAbsent;
  }
  /// Highest id + 1.
  TokenId size() const { return static_cast<TokenId>(entries_.size()); }
  /// Number of different texts.
  size_t count() const { return used_; }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Entry {
    uint64_t offset = 0;
    uint32_t length = kAbsent;
  };
  struct Slot {
    uint32_t tag = 0;
    TokenId id = -1;
    uint64_t offset = 0;
    uint32_t length = 0;
  };
  std::string_view slot_text(const Slot& s) const { return {arena_.data() + s.offset, s.length}; }
  void grow(size_t slots);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  size_t mask_ = 0, used_ = 0;
};

/// What one encode() call needs while it runs; reused from piece to piece.
struct EncodeScratch {
  std::vector<TokenId> symbols;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> previous, following;
  std::vector<uint64_t> heap;
  std::string text;

  /// A direct-mapped memory of words that need merging. Keys point into the caller's text.
  struct Word {
    const char* data = nullptr;
    uint32_t length = 0, begin = 0, count = 0;
  };
  std::vector<Word> words;
  std::vector<TokenId> word_ids;
};

/// The model of a tokenizer: turns one piece of normalized text into ids.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a non-empty piece. Throws InvalidArgument when the piece has an unknown
  /// part and the vocabulary has no unknown token.
  virtual void encode(std::string_view piece, EncodeScratch& scratch,
                      std::vector<TokenId>& out) const = 0;
  virtual const Vocab& vocab() const = 0;
};

}  // namespace mlxcel::text
