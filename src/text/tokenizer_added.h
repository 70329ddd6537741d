// Tokens that are cut out of a text before it is split into pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mlxcel::text {

/// A trie over bytes with hashed edges.
class ByteTrie {
 public:
  ByteTrie();
  /// Sets the value of a key (>= 0); the last of equal keys wins. Throws ResourceExhausted beyond
  /// 2^24 nodes.
  void add(std::string_view key, int32_t value);
  bool empty() const { return used_ == 0; }
  /// The node behind `node` and `byte`, or -1. The root is 0.
  int32_t step(int32_t node, uint8_t byte) const {
    const uint32_t key = static_cast<uint32_t>(node) << 8 | byte;
    for (size_t at = (key * uint64_t{0x9E3779B97F4A7C15ULL}) >> shift_;; at = (at + 1) & mask_) {
      if (slots_[at].child < 0) return -1;
      if (slots_[at].key == key) return slots_[at].child;
    }
  }
  /// Length of the longest key that `text` begins with, its value in `found`; 0 when there is none.
  size_t longest_prefix(std::string_view text, int32_t* found = nullptr) const {
    size_t length = 0;
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = step(node, static_cast<uint8_t>(text[i]));
      if (node < 0) break;
      if (value(node) < 0) continue;
      length = i + 1;
      if (found != nullptr) *found = value(node);
    }
    return length;
  }
  /// Value of a node, or -1.
  int32_t value(int32_t node) const { return values_[static_cast<size_t>(node)]; }

 private:
  struct Slot {
    uint32_t key = 0;
    int32_t child = -1;
  };
  void grow();
  void place(Slot slot);
  std::vector<Slot> slots_;
  std::vector<int32_t> values_;
  size_t mask_ = 0, used_ = 0;
  int shift_ = 64;
};

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool single_word = false, lstrip = false, rstrip = false;
  bool normalized = false;  // looked for in the normalized text
  bool special = false;
};

/// A part of a text: a token's id, or -1 and the text between tokens.
struct TextPart {
  TokenId id = -1;
  size_t begin = 0, end = 0;
};

class AddedTokens {
 public:
  enum class Order : uint8_t {
    LeftmostLongest,  // as Hugging Face tokenizers
    LongestFirst      // as llama.cpp: longer tokens are cut out of the whole text before shorter
  };
  explicit AddedTokens(Order order = Order::LeftmostLongest) : order_(order) {}

  /// `pattern` is what is looked for: the content, or its normalized form. Throws InvalidArgument
  /// for tokens of more than 4096 bytes.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return trie_.empty(); }
  /// Cuts well-formed UTF-8 into non-empty parts, in order. Special tokens stay text unless
  /// `parse_special`.
  void split(std::string_view text, bool parse_special, std::vector<TextPart>& parts) const;

 private:
  TextPart widened(const AddedToken& token, std::string_view text, size_t begin, size_t end,
                   size_t done) const;
  size_t next_first(std::string_view text, size_t at) const;
  void split_leftmost(std::string_view text, bool parse_special,
                      std::vector<TextPart>& parts) const;
  void split_longest(std::string_view text, bool parse_special, std::vector<TextPart>& parts) const;

  Order order_;
  ByteTrie trie_;  // value: index in tokens_
  std::vector<AddedToken> tokens_;
  bool first_[256] = {};
  int first_count_ = 0;
  char only_first_ = 0;
};

}  // namespace mlxcel::text
