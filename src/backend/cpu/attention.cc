// Paged attention on the CPU. The keys of a row are reduced in one fixed way: pieces of kPiece
// positions counted from position 0 update a running softmax; pieces of one split of kSplit
// positions start from nothing, and splits are merged in order. Which rows are worked on together
// and which thread does a split therefore never shows in the result.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/vector_kernels.h"
#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace mlxcel::cpu {
namespace {

using ops::AttentionArgs;
using ops::AttentionSegment;

constexpr int64_t kMaxQueries = 192;  // of one item: their state stays in the second-level cache

// Queries of some rows of a segment for one key/value head, against splits [split_begin,
// split_end).
struct Item {
  const AttentionSegment* segment;
  int32_t kv_head;
  int32_t row_begin, row_end;  // inside the segment
  int32_t split_begin, split_end;
  int32_t partial;  // index of the first stored split state, or -1
};

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Memory of one thread's item.
struct Workspace {
  Workspace(int64_t queries, int64_t k_pad, int64_t v_pad)
      : state_floats(queries * (2 + v_pad)),
        memory(Buffer::host(
            (queries * (k_pad + kPiece + 2) + kPiece * (k_pad + v_pad) + 2 * state_floats) * 4)) {
    auto* p = static_cast<float*>(memory->data());
    const auto take = [&](int64_t n) { return std::exchange(p, p + n); };
    keys = take(kPiece * k_pad);
    values = take(kPiece * v_pad);
    q = take(queries * k_pad);
    scores = take(queries * kPiece);
    state[0] = take(state_floats);
    state[1] = take(state_floats);
    low = reinterpret_cast<int32_t*>(take(queries));
    high = reinterpret_cast<int32_t*>(take(queries));
  }
  int64_t state_floats;
  std::shared_ptr<Buffer> memory;
  float *keys, *values, *q, *scores;
  float* state[2];
  int32_t *low, *high;
};

SoftmaxState state_at(float* memory, int64_t count, int64_t v_pad) {
  return {.maxima = memory + count * v_pad,
          .sums = memory + count * (v_pad + 1),
          .values = memory,
          .count = count,
          .v_pad = v_pad};
}

void clear(const SoftmaxState& s) {
  std::fill_n(s.maxima, s.count, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sums, s.count, 0.0F);
  std::fill_n(s.values, s.count * s.v_pad, 0.0F);
}

class Attention {
 public:
  explicit Attention(const AttentionArgs& args)
      : a_(args),
        kernels_(vector_kernels()),
        group_(args.heads / args.kv.kv_heads),
        k_pad_(round_up(args.kv.k_dim, kernels_.lanes)),
        v_pad_(round_up(args.kv.v_dim, kernels_.lanes)),
        rows_per_item_(std::max<int64_t>(1, kMaxQueries / group_)) {}

  void run() {
    ThreadPool& pool = ThreadPool::shared();
    plan(false);
    // Too few items for the threads: long sequences are cut at their splits.
    if (static_cast<int>(items_.size()) < 4 * pool.num_threads() && pool.num_threads() > 1) {
      plan(true);
    }
    partials_ = partial_count_ > 0
                    ? Buffer::host(partial_count_ * state_floats(rows_per_item_ * group_) * 4)
                    : nullptr;
    const int64_t count = static_cast<int64_t>(items_.size());
    if (work() < 200'000) {
      run_items(0, count);
    } else {
      // The cost of an item grows with its position, so threads take the next item when they are
      // free.
      std::atomic<int64_t> next{0};
      pool.parallel_for(pool.num_threads(), 1, [&](int64_t, int64_t) {
        Workspace w(rows_per_item_ * group_, k_pad_, v_pad_);
        for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
          run_item(items_[static_cast<size_t>(i)], w);
        }
      });
    }
    if (partial_count_ > 0) merge_partials();
  }

 private:
  int64_t state_floats(int64_t queries) const { return queries * (2 + v_pad_); }
  float* partial(int64_t index) {
    return static_cast<float*>(partials_->data()) + index * state_floats(rows_per_item_ * group_);
  }

  // Positions [first, last) that rows [row_begin, row_end) of a segment see together.
  int64_t first_of(const AttentionSegment& s, int64_t row_begin) const {
    const int64_t position = s.kv_len - s.q_len + row_begin;
    return a_.window > 0 ? std::max<int64_t>(0, position - a_.window + 1) : 0;
  }

  void plan(bool by_split) {
    items_.clear();
    partial_count_ = 0;
    for (const AttentionSegment& s : a_.segments) {
      for (int32_t h = 0; h < a_.kv.kv_heads; ++h) {
        for (int64_t r = 0; r < s.q_len; r += rows_per_item_) {
          const int64_t row_end = std::min<int64_t>(s.q_len, r + rows_per_item_);
          const int64_t first = first_of(s, r) / kSplit;
          const int64_t last = (s.kv_len - s.q_len + row_end + kSplit - 1) / kSplit;
          Item item{&s,
                    h,
                    static_cast<int32_t>(r),
                    static_cast<int32_t>(row_end),
                    static_cast<int32_t>(first),
                    static_cast<int32_t>(last),
                    -1};
          if (!by_split || last - first < 2) {
            items_.push_back(item);
            continue;
          }
          const auto base = static_cast<int32_t>(partial_count_);
          partial_count_ += last - first;
          for (int64_t split = first; split < last; ++split) {
            item.split_begin = static_cast<int32_t>(split);
            item.split_end = static_cast<int32_t>(split + 1);
            item.partial = base + static_cast<int32_t>(split - first);
            items_.push_back(item);
          }
        }
      }
    }
    // Later rows see more keys: the long items go first, so that the last to finish are short.
    if (!by_split) std::reverse(items_.begin(), items_.end());
  }

  int64_t work() const {
    int64_t total = 0;
    for (const AttentionSegment& s : a_.segments) {
      const int64_t seen =
          a_.window > 0 ? std::min<int64_t>(s.kv_len, a_.window + s.q_len) : s.kv_len;
      total += int64_t{s.q_len} * seen * a_.heads * (a_.kv.k_dim + a_.kv.v_dim);
    }
    return total;
  }

  void run_items(int64_t begin, int64_t end) {
    Workspace w(rows_per_item_ * group_, k_pad_, v_pad_);
    for (int64_t i = begin; i < end; ++i) run_item(items_[static_cast<size_t>(i)], w);
  }

  // Query i of an item is head i % group of row i / group.
  void run_item(const Item& item, Workspace& w) {
    const int64_t count = (item.row_end - item.row_begin) * group_;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = item.segment->row + item.row_begin + i / group_;
      const int64_t head = item.kv_head * group_ + i % group_;
      float* q = w.q + i * k_pad_;
      std::memcpy(q, a_.q + row * a_.q_stride + head * a_.kv.k_dim,
                  static_cast<size_t>(a_.kv.k_dim) * 4);
      std::fill(q + a_.kv.k_dim, q + k_pad_, 0.0F);
    }
    // The padding behind a vector is never written below.
    std::fill_n(w.keys, kPiece * k_pad_, 0.0F);
    std::fill_n(w.values, kPiece * v_pad_, 0.0F);
    if (item.partial >= 0) {
      const SoftmaxState state = state_at(partial(item.partial), count, v_pad_);
      run_split(item, item.split_begin, state, w);
      return;
    }
    const SoftmaxState total = state_at(w.state[0], count, v_pad_);
    const SoftmaxState state = state_at(w.state[1], count, v_pad_);
    clear(total);
    for (int64_t split = item.split_begin; split < item.split_end; ++split) {
      run_split(item, split, state, w);
      kernels_.merge(total, state);
    }
    finish(item, total);
  }

  void run_split(const Item& item, int64_t split, const SoftmaxState& state, Workspace& w) {
    const AttentionSegment& s = *item.segment;
    const int64_t oldest = s.kv_len - s.q_len + item.row_begin;
    const int64_t end = std::min((split + 1) * kSplit, s.kv_len - s.q_len + int64_t{item.row_end});
    const int64_t first = std::max(split * kSplit, first_of(s, item.row_begin) / kPiece * kPiece);
    clear(state);
    for (int64_t p = first; p < end; p += kPiece) {
      const int64_t seen = std::min(kPiece, end - p);
      load_piece(s, item.kv_head, p, first_of(s, item.row_begin), seen, w);
      for (int64_t i = 0; i < state.count; ++i) {
        const int64_t position = oldest + i / group_;
        const int64_t low = a_.window > 0 ? position - a_.window + 1 - p : 0;
        w.low[i] = static_cast<int32_t>(std::clamp<int64_t>(low, 0, kPiece));
        w.high[i] = static_cast<int32_t>(std::clamp<int64_t>(position + 1 - p, 0, kPiece));
      }
      kernels_.attend_piece({.q = w.q,
                             .keys = w.keys,
                             .values = w.values,
                             .k_pad = k_pad_,
                             .end = seen,
                             .low = w.low,
                             .high = w.high,
                             .scale = a_.scale,
                             .softcap = a_.softcap,
                             .scores = w.scores,
                             .state = state});
    }
  }

  // Keys and values of positions [p, p + count) as f32; those before `visible` and those behind
  // the piece's end are zero.
  void load_piece(const AttentionSegment& s, int64_t head, int64_t p, int64_t visible,
                  int64_t count, Workspace& w) {
    const int64_t size = size_of(a_.kv.type);
    const int64_t block_tokens = a_.kv.block_tokens;
    const int64_t skip = std::clamp<int64_t>(visible - p, 0, count);
    std::fill_n(w.keys, skip * k_pad_, 0.0F);
    std::fill_n(w.values, skip * v_pad_, 0.0F);
    std::fill(w.keys + count * k_pad_, w.keys + kPiece * k_pad_, 0.0F);
    for (int64_t j = skip; j < count;) {
      const int64_t in_block = (p + j) % block_tokens;
      const int64_t run = std::min(count - j, block_tokens - in_block);
      const int64_t block = s.blocks[(p + j) / block_tokens];
      const int64_t slot = (block * a_.kv.kv_heads + head) * block_tokens + in_block;
      widen(static_cast<const uint8_t*>(a_.kv.k) + slot * a_.kv.k_dim * size, a_.kv.k_dim, k_pad_,
            run, w.keys + j * k_pad_);
      if (a_.kv.v != nullptr) {
        widen(static_cast<const uint8_t*>(a_.kv.v) + slot * a_.kv.v_dim * size, a_.kv.v_dim, v_pad_,
              run, w.values + j * v_pad_);
      } else {
        for (int64_t r = j; r < j + run; ++r) {
          std::memcpy(w.values + r * v_pad_, w.keys + r * k_pad_,
                      static_cast<size_t>(a_.kv.v_dim) * 4);
        }
      }
      j += run;
    }
  }

  void widen(const uint8_t* in, int64_t dim, int64_t padded, int64_t count, float* out) const {
    if (dim == padded) {
      kernels_.widen(a_.kv.type, in, out, count * dim);
      return;
    }
    for (int64_t j = 0; j < count; ++j) {
      kernels_.widen(a_.kv.type, in + j * dim * size_of(a_.kv.type), out + j * padded, dim);
    }
  }

  void finish(const Item& item, const SoftmaxState& state) {
    for (int64_t i = 0; i < state.count; ++i) {
      const int64_t row = item.segment->row + item.row_begin + i / group_;
      const int64_t head = item.kv_head * group_ + i % group_;
      kernels_.finish(state, i, a_.sinks != nullptr ? a_.sinks + head : nullptr,
                      a_.out + (row * a_.heads + head) * a_.kv.v_dim, a_.kv.v_dim);
    }
  }

  void merge_partials() {
    const auto memory = Buffer::host(state_floats(rows_per_item_ * group_) * 4);
    for (size_t i = 0; i < items_.size();) {
      const Item& item = items_[i];
      if (item.partial < 0) {
        ++i;
        continue;
      }
      const int64_t count = (item.row_end - item.row_begin) * group_;
      const SoftmaxState total = state_at(static_cast<float*>(memory->data()), count, v_pad_);
      clear(total);
      // Splits of the same rows follow one another.
      size_t next = i;
      for (; next < items_.size() && items_[next].segment == item.segment &&
             items_[next].kv_head == item.kv_head && items_[next].row_begin == item.row_begin;
           ++next) {
        kernels_.merge(total, state_at(partial(items_[next].partial), count, v_pad_));
      }
      finish(item, total);
      i = next;
    }
  }

  const AttentionArgs& a_;
  const VectorKernels& kernels_;
  int64_t group_, k_pad_, v_pad_, rows_per_item_;
  std::vector<Item> items_;
  int64_t partial_count_ = 0;
  std::shared_ptr<Buffer> partials_;
};

}  // namespace

void attention(const AttentionArgs& args) { Attention(args).run(); }

}  // namespace mlxcel::cpu
