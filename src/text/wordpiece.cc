#include "text/wordpiece.h"

#include <fmt/core.h>

#include "base/utf8.h"

namespace mlxcel::text {
namespace {

[[noreturn]] void fail_unknown(const std::string& token) {
  throw Error(
      Code::InvalidArgument,
      fmt::format("the text has an unknown word, but the unknown token \"{}\" is not in the "
                  "vocabulary",
                  token));
}

}  // namespace

WordPiece::WordPiece(std::shared_ptr<const Vocab> vocab, std::string unk_token, std::string prefix,
                     int64_t max_chars)
    : vocab_(std::move(vocab)),
      unk_token_(std::move(unk_token)),
      unk_(vocab_->find(unk_token_)),
      max_chars_(max_chars) {
  for (TokenId id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->text(id);
    if (text.empty() || vocab_->find(text) != id) continue;
    start_.add(text, id);
    if (text.size() > prefix.size() && text.starts_with(prefix)) {
      inside_.add(text.substr(prefix.size()), id);
    }
  }
}

void WordPiece::encode(std::string_view piece, EncodeScratch&, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  bool known = static_cast<int64_t>(utf8::count(piece)) <= max_chars_;
  for (size_t at = 0; known && at < piece.size();) {
    const ByteTrie& trie = at == 0 ? start_ : inside_;
    TokenId best = -1;
    const size_t end = at + trie.longest_prefix(piece.substr(at), &best);
    known = best >= 0;
    if (known) out.push_back(best);
    at = end;
  }
  if (known) return;
  if (unk_ < 0) fail_unknown(unk_token_);
  out.resize(before);
  out.push_back(unk_);
}

MarkedWordPiece::MarkedWordPiece(std::shared_ptr<const Vocab> vocab, std::string mark, TokenId unk)
    : vocab_(std::move(vocab)), mark_(std::move(mark)), unk_(unk) {
  for (TokenId id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->text(id);
    if (!text.empty()) trie_.add(text, vocab_->find(text));
  }
}

void MarkedWordPiece::encode(std::string_view piece, EncodeScratch& scratch,
                             std::vector<TokenId>& out) const {
  const size_t before = out.size();
  scratch.text.assign(mark_);
  scratch.text += piece;
  std::string_view rest = scratch.text;
  while (!rest.empty()) {
    TokenId id = -1;
    const size_t length = trie_.longest_prefix(rest, &id);
    if (length == 0) break;
    out.push_back(id);
    rest.remove_prefix(length);
  }
  if (rest.empty()) return;
  out.resize(before);
  if (unk_ < 0) fail_unknown("[UNK]");
  out.push_back(unk_);
}

WordLevel::WordLevel(std::shared_ptr<const Vocab> vocab, std::string unk_token)
    : vocab_(std::move(vocab)), unk_token_(std::move(unk_token)), unk_(vocab_->find(unk_token_)) {}

void WordLevel::encode(std::string_view piece, EncodeScratch&, std::vector<TokenId>& out) const {
  const TokenId id = vocab_->find(piece);
  if (id < 0 && unk_ < 0) fail_unknown(unk_token_);
  out.push_back(id >= 0 ? id : unk_);
}

}  // namespace mlxcel::text
