// The next merge of byte-pair encoding: lowest rank first, then leftmost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace mlxcel::text {

struct Merge {
  uint32_t rank, position;
};

/// Symbols from which the buckets of RankBuckets pay for their setting up.
constexpr size_t kManySymbols = 4096;

/// A binary heap: for words of a few hundred symbols.
class MergeHeap {
 public:
  explicit MergeHeap(std::vector<uint64_t>& storage) : heap_(storage) { heap_.clear(); }
  /// push() without order; ordered() must follow before the first pop().
  void append(Merge m) { heap_.push_back(uint64_t{m.rank} << 32 | m.position); }
  void ordered() { std::make_heap(heap_.begin(), heap_.end(), std::greater<>()); }
  void push(Merge m) {
    append(m);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  bool empty() const { return heap_.empty(); }
  Merge pop() {
    const uint64_t top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    return {static_cast<uint32_t>(top >> 32), static_cast<uint32_t>(top)};
  }

 private:
  std::vector<uint64_t>& heap_;
};

/// One list of positions a rank: for words of many symbols, whose heap would not fit the caches.
/// A merge almost always makes pairs of higher rank than its own, so ranks are taken in one sweep;
/// the exceptions wait in a heap. Gives the same order as MergeHeap.
class RankBuckets {
 public:
  /// Ranks are below `num_ranks`.
  RankBuckets(size_t num_ranks, size_t num_symbols) : first_(num_ranks, kNone), early_(storage_) {
    links_.reserve(num_symbols * 2);
  }
  void append(Merge m) { push(m); }
  void ordered() {}
  void push(Merge m) {
    if (m.rank < next_rank_) return early_.push(m);
    links_.push_back({m.position, first_[m.rank]});
    first_[m.rank] = static_cast<uint32_t>(links_.size() - 1);
    ++waiting_;
  }
  bool empty() const { return at_ == bucket_.size() && waiting_ == 0 && early_.empty(); }
  Merge pop() {
    if (at_ == bucket_.size() && waiting_ > 0 && early_.empty()) next_bucket();
    if (early_.empty()) return {next_rank_ - 1, bucket_[at_++]};
    const Merge early = early_.pop();
    const bool bucket_first =
        at_ < bucket_.size() && next_rank_ - 1 == early.rank && bucket_[at_] < early.position;
    if (!bucket_first) return early;
    early_.push(early);
    return {next_rank_ - 1, bucket_[at_++]};
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Link {
    uint32_t position, next;
  };
  void next_bucket() {
    bucket_.clear();
    at_ = 0;
    while (bucket_.empty()) {
      for (uint32_t i = first_[next_rank_]; i != kNone; i = links_[i].next) {
        bucket_.push_back(links_[i].position);
      }
      ++next_rank_;
    }
    waiting_ -= bucket_.size();
    std::sort(bucket_.begin(), bucket_.end());
  }

  std::vector<uint32_t> first_;  // newest link of each rank
  std::vector<Link> links_;
  std::vector<uint32_t> bucket_;  // positions of rank next_rank_ - 1
  std::vector<uint64_t> storage_;
  MergeHeap early_;  // ranks below next_rank_
  size_t at_ = 0, waiting_ = 0;
  uint32_t next_rank_ = 0;
};

}  // namespace mlxcel::text
