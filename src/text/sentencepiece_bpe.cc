#include "text/sentencepiece_bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "text/unicode.h"

namespace mlxcel::text {
namespace {

// Floats as unsigned integers in the opposite order: the best score is the smallest.
uint32_t descending(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // no negative zero
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

}  // namespace

struct SentencePieceBpe::Work {
  std::string_view text;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;  // (descending score, position of the left symbol)
  // How entries that must not come out were made, to undo it.
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> parts;

  std::string_view of(const Symbol& s) const { return text.substr(s.begin, s.length); }
};

SentencePieceBpe::SentencePieceBpe(std::shared_ptr<const Vocab> vocab, std::vector<float> scores,
                                   SentencePieceBpeOptions options)
    : vocab_(std::move(vocab)), scores_(std::move(scores)), options_(std::move(options)) {
  scores_.resize(static_cast<size_t>(vocab_->size()));
  for (unsigned b = 0; b < 256; ++b) {
    const auto byte = static_cast<char>(b);
    bytes_[b] = vocab_->find(fmt::format("<0x{:02X}>", b));
    if (bytes_[b] < 0) bytes_[b] = vocab_->find({&byte, 1});
  }
  for (TokenId id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->text(id);
    if (type_of(id) == PieceType::Unused) has_unused_ = true;
    if (type_of(id) == PieceType::UserDefined && !text.empty()) user_defined_.add(text, id);
  }
}

PieceType SentencePieceBpe::type_of(TokenId id) const {
  const auto at = static_cast<size_t>(id);
  return at < options_.types.size() ? options_.types[at] : PieceType::Normal;
}

TokenId SentencePieceBpe::mergeable(std::string_view text) const {
  const TokenId id = vocab_->find(text);
  if (id < 0 || options_.merge_all_types) return id;
  const PieceType type = type_of(id);
  return type == PieceType::Normal || type == PieceType::UserDefined || type == PieceType::Unused
             ? id
             : -1;
}

// Puts the pair that begins at `left` on the agenda if it is an entry.
void SentencePieceBpe::offer(Work& work, int32_t left) const {
  if (left < 0) return;
  Symbol& a = work.symbols[static_cast<size_t>(left)];
  a.candidate = -1;
  if (a.next < 0) return;
  const Symbol& b = work.symbols[static_cast<size_t>(a.next)];
  if (a.frozen || b.frozen) return;
  const std::string_view joined = work.text.substr(a.begin, a.length + b.length);
  a.candidate = mergeable(joined);
  if (a.candidate < 0) return;
  const float score = scores_[static_cast<size_t>(a.candidate)];
  work.heap.push_back(uint64_t{descending(score)} << 32 | static_cast<uint32_t>(left));
  std::push_heap(work.heap.begin(), work.heap.end(), std::greater<>());
  if (has_unused_ && type_of(a.candidate) == PieceType::Unused) {
    work.parts[joined] = {work.of(a), work.of(b)};
  }
}

void SentencePieceBpe::merge(Work& work) const {
  while (!work.heap.empty()) {
    const uint64_t top = work.heap.front();
    std::pop_heap(work.heap.begin(), work.heap.end(), std::greater<>());
    work.heap.pop_back();
    const auto left = static_cast<int32_t>(top & UINT32_MAX);
    Symbol& a = work.symbols[static_cast<size_t>(left)];
    if (a.length == 0 || a.candidate < 0 ||
        descending(scores_[static_cast<size_t>(a.candidate)]) != top >> 32) {
      continue;  // the pair has changed since
    }
    Symbol& b = work.symbols[static_cast<size_t>(a.next)];
    a.length += b.length;
    b.length = 0;
    a.next = b.next;
    if (a.next >= 0) work.symbols[static_cast<size_t>(a.next)].previous = left;
    offer(work, a.previous);
    offer(work, left);
  }
}

void SentencePieceBpe::emit(const Work& work, std::string_view text,
                            std::vector<TokenId>& out) const {
  // Undoes merges into unused entries; a stack in place of recursion.
  std::vector<std::string_view> stack = {text};
  while (!stack.empty()) {
    const std::string_view part = stack.back();
    stack.pop_back();
    const TokenId id = mergeable(part);
    if (id >= 0 && has_unused_ && type_of(id) == PieceType::Unused) {
      const auto split = work.parts.find(part);
      if (split != work.parts.end()) {
        stack.push_back(split->second.second);
        stack.push_back(split->second.first);
        continue;
      }
    }
    if (id >= 0) {
      out.push_back(id);
    } else if (options_.byte_fallback) {
      for (const char c : part) {
        const TokenId byte = bytes_[static_cast<uint8_t>(c)];
        out.push_back(byte >= 0 ? byte : options_.unk);
      }
    } else if (out.empty() || out.back() != options_.unk) {
      out.push_back(options_.unk);
    }
  }
}

void SentencePieceBpe::encode(std::string_view piece, EncodeScratch&,
                              std::vector<TokenId>& out) const {
  Work work;
  work.text = piece;
  work.symbols.reserve(piece.size());
  for (size_t at = 0; at < piece.size();) {
    size_t end = at;
    if (options_.freeze_user_defined && !user_defined_.empty()) {
      end += user_defined_.longest_prefix(piece.substr(at));
    }
    const bool frozen = end > at;
    if (!frozen) unicode::next(piece, end);
    const auto index = static_cast<int32_t>(work.symbols.size());
    work.symbols.push_back({index - 1, end < piece.size() ? index + 1 : -1,
                            static_cast<uint32_t>(at), static_cast<uint32_t>(end - at), -1,
                            frozen});
    at = end;
  }
  for (size_t i = 0; i + 1 < work.symbols.size(); ++i) offer(work, static_cast<int32_t>(i));
  merge(work);
  for (const Symbol& s : work.symbols) {
    if (s.length != 0) emit(work, work.of(s), out);
  }
}

}  // namespace mlxcel::text
