// Byte strings with tokens attached, in depth-first order: a vocabulary, or what is left of tokens
// behind the end of a terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace mlxcel::text::grammar {

struct TrieWord {
  std::string_view bytes;
  TokenId token = 0;
  uint32_t units = 0;  // of a counted terminal, read before these bytes
};

/// Node i follows its parent directly or after the subtrees of its elder siblings; skip[i] is the
/// first node that is not below it. Words ending at node i: words[words_begin[i], words_end[i]);
/// those at and below it: words[words_begin[i], words_begin[skip[i]]). The root is not a node;
/// empty words come first.
struct TokenTrie {
  std::vector<uint8_t> byte;
  std::vector<uint16_t> depth;  // of the first byte: 0
  std::vector<uint32_t> skip, words_begin, words_end;
  std::vector<TrieWord> words;  // sorted by bytes
  uint32_t num_empty = 0;
  uint32_t longest = 0;

  uint32_t size() const { return static_cast<uint32_t>(byte.size()); }
};

/// The bytes of the words must outlive the trie. Words of more than 4096 bytes are left out.
TokenTrie make_trie(std::vector<TrieWord> words);

/// A set of token ids, as a list or as bits.
class TokenSet {
 public:
  TokenSet() = default;
  /// `ids` may hold duplicates.
  TokenSet(std::vector<TokenId> ids, size_t vocab_size);
  void add_to(std::span<uint32_t> bits) const;
  size_t bytes() const { return ids_.size() * sizeof(TokenId) + bits_.size() * 4; }

 private:
  std::vector<TokenId> ids_;
  std::vector<uint32_t> bits_;
};

}  // namespace mlxcel::text::grammar
