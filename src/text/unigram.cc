#include "text/unigram.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

}  // namespace

Unigram::Unigram(std::shared_ptr<const Vocab> vocab, std::vector<double> scores,
                 UnigramOptions options)
    : vocab_(std::move(vocab)), scores_(std::move(scores)), options_(std::move(options)) {
  scores_.resize(static_cast<size_t>(vocab_->size()));
  min_score_ = std::numeric_limits<double>::infinity();
  max_score_ = std::numeric_limits<float>::min();  // the reference starts from the least positive
  const auto type_of = [&](TokenId id) {
    const auto at = static_cast<size_t>(id);
    return at < options_.types.size() ? options_.types[at] : PieceType::Normal;
  };
  for (TokenId id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->text(id);
    const PieceType type = type_of(id);
    if (type == PieceType::Normal) {
      min_score_ = std::min(min_score_, scores_[static_cast<size_t>(id)]);
      max_score_ = std::max(max_score_, scores_[static_cast<size_t>(id)]);
    }
    const bool usable =
        type == PieceType::Normal || type == PieceType::UserDefined ||
        (type == PieceType::Unused && options_.flavor == UnigramOptions::Flavor::LlamaCpp);
    if (usable && !text.empty()) trie_.add(text, vocab_->find(text));
  }
  for (unsigned b = 0; b < 256; ++b) bytes_[b] = vocab_->find(fmt::format("<0x{:02X}>", b));
}

double Unigram::score_of(TokenId id, size_t bytes) const {
  const auto at = static_cast<size_t>(id);
  if (at < options_.types.size() && options_.types[at] == PieceType::UserDefined) {
    if (options_.flavor == UnigramOptions::Flavor::LlamaCpp) return 0;
    return static_cast<float>(bytes) * static_cast<float>(max_score_) - 0.1;
  }
  return scores_[at];
}

void Unigram::relax(Node& node, double score, size_t begin, TokenId id) const {
  // SentencePiece adds in single precision, which decides between paths of equal score.
  if (options_.flavor == UnigramOptions::Flavor::SentencePiece) score = static_cast<float>(score);
  if (node.begin >= 0 && !(score > node.score)) return;
  node = {score, static_cast<int64_t>(begin), id};
}

// Extends the best path that ends at `begin` by every entry that stands there.
void Unigram::add_matches(std::string_view piece, size_t begin, std::vector<Node>& best) const {
  size_t behind = begin;
  unicode::next(piece, behind);
  const double here = best[begin].score;
  bool single = false;
  int32_t node = 0;
  for (size_t i = begin; i < piece.size(); ++i) {
    node = trie_.step(node, static_cast<uint8_t>(piece[i]));
    if (node < 0) break;
    const TokenId id = trie_.value(node);
    if (id < 0) continue;
    relax(best[i + 1], here + score_of(id, i + 1 - begin), begin, id);
    single = single || i + 1 == behind;
  }
  if (single) return;
  if (options_.unk < 0) {
    throw Error(Code::InvalidArgument,
                "the text has an unknown character, but the vocabulary has no unknown token");
  }
  const double score = here + (min_score_ - kUnknownPenalty);
  relax(best[behind], score, begin, options_.unk);
}

void Unigram::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  // Text that spells an entry is that entry, such as the unknown token's own name.
  const TokenId spelled =
      options_.flavor == UnigramOptions::Flavor::HuggingFace ? vocab_->find(text) : -1;
  if (spelled >= 0) {
    out.push_back(spelled);
    return;
  }
  if (options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
        return bytes_[static_cast<uint8_t>(c)] >= 0;
      })) {
    for (const char c : text) out.push_back(bytes_[static_cast<uint8_t>(c)]);
  } else {
    out.push_back(options_.unk);
  }
}

void Unigram::encode(std::string_view piece, EncodeScratch&, std::vector<TokenId>& out) const {
  std::vector<Node> best(piece.size() + 1);
  for (size_t at = 0; at < piece.size(); unicode::next(piece, at)) add_matches(piece, at, best);
  // Walk back, noting where each piece begins, then write forwards. Neighbouring unknown
  // characters are one unknown piece.
  std::vector<size_t> ends;
  for (size_t end = piece.size(); end > 0; end = static_cast<size_t>(best[end].begin)) {
    ends.push_back(end);
  }
  for (size_t i = ends.size(); i-- > 0;) {
    const Node& node = best[ends[i]];
    if (node.id != options_.unk) {
      out.push_back(node.id);
      continue;
    }
    const auto begin = static_cast<size_t>(node.begin);
    while (i > 0 && best[ends[i - 1]].id == options_.unk) --i;
    add_unknown(piece.substr(begin, ends[i] - begin), out);
  }
}

}  // namespace mlxcel::text
