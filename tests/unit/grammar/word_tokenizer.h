// A tokenizer over a given list of words, for tests of constraints.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace mlxcel::text {

/// Ids are places in the list; all 256 bytes follow it as words of their own. Words written <|...|>
/// are special. encode() takes the longest word each time.
class WordTokenizer final : public Tokenizer {
 public:
  explicit WordTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
    for (int b = 0; b < 256; ++b) words_.push_back(std::string(1, static_cast<char>(b)));
  }
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      size_t best = words_.size();
      for (size_t i = 0; i < words_.size(); ++i) {
        const bool fits = !is_special(static_cast<TokenId>(i)) && text.starts_with(words_[i]);
        if (fits && (best == words_.size() || words_[i].size() > words_[best].size())) best = i;
      }
      ids.push_back(static_cast<TokenId>(best));
      text.remove_prefix(words_[best].size());
    }
    return ids;
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += bytes(id);
    return out;
  }
  std::string_view bytes(TokenId id) const override { return words_.at(static_cast<size_t>(id)); }
  std::string_view token(TokenId id) const override { return bytes(id); }
  std::optional<TokenId> id_of(std::string_view token) const override {
    const auto it = std::find(words_.begin(), words_.end(), token);
    if (it == words_.end()) return {};
    return static_cast<TokenId>(it - words_.begin());
  }
  bool is_special(TokenId id) const override {
    const std::string_view w = bytes(id);
    return w.starts_with("<|") && w.ends_with("|>");
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(words_.size()); }
  std::optional<TokenId> bos_id() const override { return {}; }
  std::optional<TokenId> eos_id() const override { return id_of("<|end|>"); }
  bool strips_leading_space() const override { return false; }

 private:
  std::vector<std::string> words_;
};

}  // namespace mlxcel::text
