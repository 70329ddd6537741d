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

/// A byte string of up to 16 bytes as two words; equal only for equal strings of equal length.
struct ShortKey {
  uint64_t a = 0, b = 0;
};
inline ShortKey short_key(std::string_view s) {
  const size_t n = s.size();
  const char* p = s.data();
  const auto load8 = [](const char* at) {
    uint64_t v = 0;
    std::memcpy(&v, at, 8);
    return v;
  };
  const auto load4 = [](const char* at) {
    uint32_t v = 0;
    std::memcpy(&v, at, 4);
    return uint64_t{v};
  };
  if (n > 8) return {load8(p), load8(p + n - 8)};
  if (n == 8) return {load8(p), 0};
  if (n >= 4) return {load4(p) | load4(p + n - 4) << 32, 0};
  if (n == 0) return {};
  const auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(p[i])}; };
  return {byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16, 0};
}
inline uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
inline uint64_t hash_key(ShortKey key, size_t length) {
  return fold(key.a ^ 0xC2B2AE3D27D4EB4FULL, key.b ^ (0x9E3779B97F4A7C15ULL + length));
}
/// A fast hash of byte strings: one multiplication up to 16 bytes.
inline uint64_t hash_bytes(std::string_view s) {
  if (s.size() <= 16) return hash_key(short_key(s), s.size());
  uint64_t h = s.size();
  size_t i = 0;
  for (; s.size() - i > 16; i += 16) {
    const ShortKey key = short_key(s.substr(i, 16));
    h = fold(h ^ key.a, key.b ^ 0x9E3779B97F4A7C15ULL);
  }
  return fold(h, hash_bytes(s.substr(i)) | 1);
}

/// Append-only map of byte strings to ids with all text in one block. Ids may have gaps.
class Vocab {
 public:
  /// Prepares for `count` entries.
  void reserve(size_t count);
  /// Adds an entry. An id given twice keeps its last text; a text given twice its last id. Throws
  /// InvalidArgument for a negative id or one above kMaxTokenId.
  void add(TokenId id, std::string_view text) { add(id, text, hash_bytes(text)); }
  void add(TokenId id, std::string_view text, uint64_t hash);
  /// Brings the place of a text with this hash_bytes() near, for a find() or add() soon
  /// after.
  void prefetch(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & mask_]);
  }
  /// The id of `text`, or -1.
  TokenId find(std::string_view text) const { return find(text, hash_bytes(text)); }
  TokenId find(std::string_view text, uint64_t hash) const {
    if (slots_.empty()) return -1;
    const uint64_t key = text.size() <= kInline ? short_key(text).a : hash;
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return -1;
      if (slot.key == key && slot.length == text.size() &&
          (text.size() <= kInline || slot_text(at) == text)) {
        return slot.id;
      }
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
  /// Whether find(text(id)) is `id` for every entry.
  bool one_to_one() const { return ids_ == used_; }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Entry {
    uint64_t offset = 0;
    uint32_t length = kAbsent;
  };
  // Texts of up to 8 bytes are compared without touching the arena.
  static constexpr size_t kInline = 8;
  struct Slot {
    uint64_t key = 0;  // the text itself or its hash
    TokenId id = -1;
    uint32_t length = 0;
  };
  std::string_view slot_text(size_t at) const {
    return {arena_.data() + offsets_[at], slots_[at].length};
  }
  void grow(size_t slots);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> offsets_;  // of the slots' texts above kInline bytes
  size_t mask_ = 0, used_ = 0;
  size_t ids_ = 0;  // with a text
};

/// What one encode() call needs while it runs; reused from piece to piece.
struct EncodeScratch {
  std::vector<TokenId> symbols;
  std::vector<uint32_t> ranks;
  std::vector<int32_t> previous, following;
  std::vector<uint64_t> heap;
  std::string text;
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
