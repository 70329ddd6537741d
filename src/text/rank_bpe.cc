#include "text/rank_bpe.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/merge_queue.h"

namespace mlxcel::text {
namespace {

constexpr size_t kShortPiece = 64;  // bytes up to which scanning beats a heap
constexpr TokenId kNone = INT32_MAX;

}  // namespace

RankBpe::RankBpe(std::shared_ptr<const Vocab> vocab) : vocab_(std::move(vocab)) {
  for (int b = 0; b < 256; ++b) {
    const auto byte = static_cast<char>(b);
    if (vocab_->find({&byte, 1}) < 0) {
      throw Error(Code::InvalidArgument, fmt::format("the vocabulary lacks the byte 0x{:02X}", b));
    }
  }
}

void RankBpe::merge_short(std::string_view piece, std::vector<TokenId>& out) const {
  // begin[i] is where symbol i starts; joint[i] the entry that symbols i and i + 1 make.
  uint8_t begin[kShortPiece + 2];
  TokenId joint[kShortPiece + 1];
  size_t n = piece.size();
  for (size_t i = 0; i <= n; ++i) begin[i] = static_cast<uint8_t>(i);
  const auto look_up = [&](size_t i) {
    const TokenId id =
        vocab_->find(piece.substr(begin[i], static_cast<size_t>(begin[i + 2]) - begin[i]));
    joint[i] = id >= 0 ? id : kNone;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    const auto best = static_cast<size_t>(std::min_element(joint, joint + n - 1) - joint);
    if (joint[best] == kNone) break;
    std::copy(begin + best + 2, begin + n + 1, begin + best + 1);
    std::copy(joint + best + 1, joint + n - 1, joint + best);
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  for (size_t i = 0; i < n; ++i) {
    out.push_back(
        vocab_->find(piece.substr(begin[i], static_cast<size_t>(begin[i + 1]) - begin[i])));
  }
}

template <class Queue>
void RankBpe::merge_all(std::string_view piece, Queue& queue, EncodeScratch& s) const {
  const size_t n = piece.size();
  s.symbols.assign(n + 1, kNone);  // the entry that the symbol at i and the next one make
  s.previous.resize(n + 1);
  s.following.resize(n + 1);  // where the next symbol begins; -1: merged into its left neighbour
  const auto look_up = [&](size_t i) {
    s.symbols[i] = kNone;
    const auto next = static_cast<size_t>(s.following[i]);
    if (next >= n) return false;
    const auto end = static_cast<size_t>(s.following[next]);
    const TokenId id = vocab_->find(piece.substr(i, end - i));
    if (id < 0) return false;
    s.symbols[i] = id;
    return true;
  };
  const auto entry = [&](size_t i) {
    return Merge{static_cast<uint32_t>(s.symbols[i]), static_cast<uint32_t>(i)};
  };
  for (size_t i = 0; i <= n; ++i) {
    s.previous[i] = static_cast<int32_t>(i) - 1;
    s.following[i] = static_cast<int32_t>(i) + 1;
  }
  for (size_t i = 0; i < n; ++i) {
    if (look_up(i)) queue.append(entry(i));
  }
  queue.ordered();
  const auto push = [&](size_t i) {
    if (look_up(i)) queue.push(entry(i));
  };
  while (!queue.empty()) {
    const Merge top = queue.pop();
    const size_t i = top.position;
    if (s.following[i] < 0 || s.symbols[i] != static_cast<TokenId>(top.rank)) continue;
    const auto next = static_cast<size_t>(s.following[i]);
    const auto behind = static_cast<size_t>(s.following[next]);
    s.following[i] = static_cast<int32_t>(behind);
    s.following[next] = -1;
    s.previous[behind] = static_cast<int32_t>(i);
    push(i);
    if (s.previous[i] >= 0) push(static_cast<size_t>(s.previous[i]));
  }
}

void RankBpe::merge_long(std::string_view piece, EncodeScratch& s,
                         std::vector<TokenId>& out) const {
  const size_t n = piece.size();
  if (n < kManySymbols) {
    MergeHeap queue(s.heap);
    merge_all(piece, queue, s);
  } else {
    RankBuckets queue(static_cast<size_t>(vocab_->size()), n);
    merge_all(piece, queue, s);
  }
  for (size_t i = 0; i < n;) {
    const auto next = static_cast<size_t>(s.following[i]);
    out.push_back(vocab_->find(piece.substr(i, next - i)));
    i = next;
  }
}

void RankBpe::encode(std::string_view piece, EncodeScratch& scratch,
                     std::vector<TokenId>& out) const {
  const TokenId whole = vocab_->find(piece);
  if (whole >= 0) {
    out.push_back(whole);
  } else if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, scratch, out);
  }
}

}  // namespace mlxcel::text
