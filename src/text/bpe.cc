#include "text/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "text/merge_queue.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr uint32_t kNoMerge = UINT32_MAX;
constexpr size_t kShortWord = 40;  // symbols up to which scanning beats a heap

}  // namespace

void BpeMerges::reserve(size_t count) {
  const size_t slots = std::bit_ceil(std::max<size_t>(16, count + count / 2));
  if (slots > slots_.size()) grow(slots);
}

void BpeMerges::grow(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (const Slot& s : old) {
    if (s.key == kFree) continue;
    size_t at = start_of(s.key);
    while (slots_[at].key != kFree) at = (at + 1) & mask_;
    slots_[at] = s;
  }
}

void BpeMerges::add(TokenId left, TokenId right, BpeMerge merge) {
  if (used_ * 3 >= slots_.size() * 2) grow(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t key = key_of(left, right);
  size_t at = start_of(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  if (slots_[at].key == kFree) ++used_;
  num_ranks_ = std::max(num_ranks_, size_t{merge.rank} + 1);
  slots_[at] = {key, merge};
}

Bpe::Bpe(std::shared_ptr<const Vocab> vocab, BpeMerges merges, BpeOptions options)
    : vocab_(std::move(vocab)),
      keys_(vocab_.get()),
      merges_(std::move(merges)),
      options_(std::move(options)),
      known_(new std::atomic<uint8_t>[static_cast<size_t>(vocab_->size())]()) {
  if (options_.has_unk) unk_ = vocab_->find(options_.unk_token);
  for (unsigned b = 0; b < 256; ++b) fallback_[b] = vocab_->find(fmt::format("<0x{:02X}>", b));
}

bool Bpe::use_raw_bytes() {
  if (raw_bytes_) return true;
  if (!options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
    return false;
  }
  std::string s;
  for (unsigned b = 0; b < 256; ++b) {
    const auto byte = static_cast<char>(b);
    s.clear();
    unicode::append_byte_level(s, {&byte, 1});
    byte_symbol_[b] = vocab_->find(s);
    if (byte_symbol_[b] < 0) return false;
  }
  raw_.reserve(static_cast<size_t>(vocab_->size()));
  for (TokenId id = 0; id < vocab_->size(); ++id) {
    const std::string_view text = vocab_->text(id);
    if (text.empty() || !unicode::decode_byte_level(text, s)) continue;
    // Of entries with equal text only the one that find() gives can ever be produced.
    raw_.add(vocab_->one_to_one() ? id : vocab_->find(text), s);
  }
  keys_ = &raw_;
  raw_bytes_ = true;
  return true;
}

void Bpe::add_unknown(std::string_view symbol, bool& open_unk, EncodeScratch& scratch) const {
  if (options_.byte_fallback && std::all_of(symbol.begin(), symbol.end(), [&](char c) {
        return fallback_[static_cast<uint8_t>(c)] >= 0;
      })) {
    // The reference appends a pending unknown token only at the next known symbol, behind these.
    for (const char c : symbol) scratch.symbols.push_back(fallback_[static_cast<uint8_t>(c)]);
    return;
  }
  if (!options_.has_unk) return;
  if (unk_ < 0) {
    throw Error(Code::InvalidArgument, fmt::format("the unknown token \"{}\" is not in the "
                                                   "vocabulary, but the text needs it",
                                                   options_.unk_token));
  }
  if (open_unk && !options_.fuse_unk) scratch.symbols.push_back(unk_);
  open_unk = true;
}

void Bpe::initial_symbols(std::string_view piece, EncodeScratch& scratch) const {
  scratch.symbols.clear();
  if (raw_bytes_) {
    for (const char c : piece) scratch.symbols.push_back(byte_symbol_[static_cast<uint8_t>(c)]);
    return;
  }
  const bool decorated =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  bool open_unk = false;
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    unicode::next(piece, at);
    std::string_view symbol = piece.substr(begin, at - begin);
    if (decorated) {
      scratch.text.assign(begin > 0 ? options_.continuing_subword_prefix : "");
      scratch.text += symbol;
      if (at == piece.size()) scratch.text += options_.end_of_word_suffix;
      symbol = scratch.text;
    }
    const TokenId id = vocab_->find(symbol);
    if (id < 0) {
      add_unknown(symbol, open_unk, scratch);
      continue;
    }
    if (open_unk) scratch.symbols.push_back(unk_);
    open_unk = false;
    scratch.symbols.push_back(id);
  }
  if (open_unk) scratch.symbols.push_back(unk_);
}

void Bpe::merge_short(EncodeScratch& scratch, std::vector<TokenId>& out) const {
  size_t n = scratch.symbols.size();
  TokenId* id = scratch.symbols.data();
  uint32_t rank[kShortWord];
  TokenId result[kShortWord];
  const auto look_up = [&](size_t i) {
    const BpeMerge* m = merges_.find(id[i], id[i + 1]);
    rank[i] = m != nullptr ? m->rank : kNoMerge;
    result[i] = m != nullptr ? m->result : -1;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (rank[i] < rank[best]) best = i;
    }
    if (rank[best] == kNoMerge) break;
    id[best] = result[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      id[i] = id[i + 1];
      rank[i] = rank[i + 1];
      result[i] = result[i + 1];
    }
    --n;
    if (best > 0) look_up(best - 1);
    if (best + 1 < n) look_up(best);
  }
  out.insert(out.end(), id, id + n);
}

template <class Queue>
void Bpe::merge_all(Queue& queue, EncodeScratch& s) const {
  const size_t n = s.symbols.size();
  s.ranks.assign(n, kNoMerge);
  s.previous.resize(n);
  s.following.resize(n);
  // An entry of the queue is stale when the pair at its position has another rank.
  const auto look_up = [&](size_t i, size_t j) {
    const BpeMerge* m = merges_.find(s.symbols[i], s.symbols[j]);
    s.ranks[i] = m != nullptr ? m->rank : kNoMerge;
    return m != nullptr;
  };
  for (size_t i = 0; i < n; ++i) {
    s.previous[i] = static_cast<int32_t>(i) - 1;
    s.following[i] = i + 1 < n ? static_cast<int32_t>(i) + 1 : -1;
    if (i + 1 < n && look_up(i, i + 1)) queue.append({s.ranks[i], static_cast<uint32_t>(i)});
  }
  queue.ordered();
  const auto push = [&](size_t i, size_t j) {
    if (look_up(i, j)) queue.push({s.ranks[i], static_cast<uint32_t>(i)});
  };
  while (!queue.empty()) {
    const Merge next = queue.pop();
    const size_t i = next.position;
    if (s.symbols[i] < 0 || s.ranks[i] != next.rank) continue;
    const auto j = static_cast<size_t>(s.following[i]);
    s.symbols[i] = merges_.find(s.symbols[i], s.symbols[j])->result;
    s.symbols[j] = -1;
    s.ranks[i] = kNoMerge;
    s.following[i] = s.following[j];
    if (s.following[i] >= 0) {
      const auto k = static_cast<size_t>(s.following[i]);
      s.previous[k] = static_cast<int32_t>(i);
      push(i, k);
    }
    if (s.previous[i] >= 0) push(static_cast<size_t>(s.previous[i]), i);
  }
}

void Bpe::merge_long(EncodeScratch& s, std::vector<TokenId>& out) const {
  if (s.symbols.size() < kManySymbols) {
    MergeHeap queue(s.heap);
    merge_all(queue, s);
  } else {
    RankBuckets queue(merges_.num_ranks(), s.symbols.size());
    merge_all(queue, s);
  }
  for (const TokenId id : s.symbols) {
    if (id >= 0) out.push_back(id);
  }
}

void Bpe::encode_word(std::string_view piece, EncodeScratch& scratch,
                      std::vector<TokenId>& out) const {
  initial_symbols(piece, scratch);
  if (scratch.symbols.size() <= kShortWord) {
    merge_short(scratch, out);
  } else {
    merge_long(scratch, out);
  }
}

void Bpe::encode(std::string_view piece, EncodeScratch& scratch, std::vector<TokenId>& out) const {
  const TokenId whole = keys_->find(piece);
  if (whole >= 0) {
    if (options_.ignore_merges) {
      out.push_back(whole);
      return;
    }
    std::atomic<uint8_t>& known = known_[static_cast<size_t>(whole)];
    const uint8_t state = known.load(std::memory_order_relaxed);
    if (state == kWhole) {
      out.push_back(whole);
      return;
    }
    if (state == kUnknown) {
      const size_t before = out.size();
      encode_word(piece, scratch, out);
      const bool same = out.size() == before + 1 && out[before] == whole;
      known.store(same ? kWhole : kSplit, std::memory_order_relaxed);
      return;
    }
  }
  encode_word(piece, scratch, out);
}

}  // namespace mlxcel::text
