#include "text/grammar/token_trie.h"

#include <algorithm>

namespace mlxcel::text::grammar {

namespace {
constexpr size_t kLongestWord = 4096;
}

TokenTrie make_trie(std::vector<TrieWord> words) {
  std::erase_if(words, [](const TrieWord& w) { return w.bytes.size() > kLongestWord; });
  std::sort(words.begin(), words.end(), [](const TrieWord& a, const TrieWord& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });
  TokenTrie out;
  std::vector<uint32_t> path;  // nodes from the root to the current word
  std::string_view previous;
  const auto close = [&](size_t depth) {
    while (path.size() > depth) {
      out.skip[path.back()] = out.size();
      path.pop_back();
    }
  };
  for (uint32_t w = 0; w < words.size(); ++w) {
    const std::string_view bytes = words[w].bytes;
    if (bytes.empty()) {
      ++out.num_empty;
      continue;
    }
    const auto diverge =
        std::mismatch(bytes.begin(), bytes.end(), previous.begin(), previous.end());
    const auto shared = static_cast<size_t>(diverge.first - bytes.begin());
    if (shared < bytes.size() || previous.size() != bytes.size()) close(shared);
    for (size_t i = path.size(); i < bytes.size(); ++i) {
      path.push_back(out.size());
      out.byte.push_back(static_cast<uint8_t>(bytes[i]));
      out.depth.push_back(static_cast<uint16_t>(i));
      out.skip.push_back(0);
      out.words_begin.push_back(w);
      out.words_end.push_back(w);
    }
    out.words_end[path.back()] = w + 1;
    out.longest = std::max(out.longest, static_cast<uint32_t>(bytes.size()));
    previous = bytes;
  }
  close(0);
  out.words_begin.push_back(static_cast<uint32_t>(words.size()));  // for skip == size()
  out.words = std::move(words);
  return out;
}

TokenSet::TokenSet(std::vector<TokenId> ids, size_t vocab_size) {
  const size_t words = (vocab_size + 31) / 32;
  if (ids.size() <= words) {
    ids_ = std::move(ids);
    ids_.shrink_to_fit();
    return;
  }
  bits_.assign(words, 0);
  for (const TokenId id : ids) {
    bits_[static_cast<size_t>(id) >> 5] |= uint32_t{1} << (static_cast<uint32_t>(id) & 31);
  }
}

void TokenSet::add_to(std::span<uint32_t> bits) const {
  for (size_t i = 0; i < bits_.size(); ++i) bits[i] |= bits_[i];
  for (const TokenId id : ids_) {
    bits[static_cast<size_t>(id) >> 5] |= uint32_t{1} << (static_cast<uint32_t>(id) & 31);
  }
}

}  // namespace mlxcel::text::grammar
