// The storage behind the CacheSpec list of a model: paged blocks for attention layers, one state
// row a sequence for recurrent ones. Touched by the engine thread only, and read by the forward
// that the engine thread waits for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/block_pool.h"
#include "engine/kv_layout.h"
#include "nn/batch.h"
#include "ops/attention_plan.h"

namespace mlxcel::engine {

/// What one sequence occupies. Positions [0, num_tokens) are written and committed; positions up to
/// num_reserved have storage.
struct CacheAllocation {
  std::vector<std::vector<BlockId>> blocks;  // [group][position / block_tokens]
  std::vector<int32_t> released;             // [group]: leading entries that are kNoBlock
  int32_t state_row = -1;                    // recurrent layers; -1 = none
  int32_t num_tokens = 0, num_reserved = 0;
  int32_t prompt_len = 0;  // nn::Segment::prompt_len, set by the owner once it is open
  bool open = false;
};

/// A copy of one state row, over all recurrent layers.
struct StateSnapshot {
  std::vector<float> values;
  int64_t bytes() const { return static_cast<int64_t>(values.size() * sizeof(float)); }
};

struct KvCacheOptions {
  int64_t budget_bytes = 0;  // for blocks; must hold at least one block of every group
  int32_t num_state_rows = 0;
  bool dense = false;  // each sequence takes one run of contiguous blocks when it opens
  Device device{};     // where keys, values and states lie
};

class KvCache {
 public:
  /// Reserves address space for the whole budget; memory is taken when a block is first written. On
  /// a device the memory is taken here.
  /// Throws ResourceExhausted when the address space is refused, InvalidArgument for a budget
  /// smaller than one block of each group.
  KvCache(KvLayout layout, const KvCacheOptions& options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  /// Starts an empty sequence: a zeroed state row and, when dense, blocks for `max_tokens`
  /// positions. False when there is no row or no run left; nothing changed then.
  bool open(CacheAllocation& a, int32_t max_tokens);
  /// Starts a sequence whose first `num_tokens` positions are held by `blocks` (one list a group,
  /// kNoBlock behind a window) and `state`. Paged: the blocks are shared; dense: copied. False as
  /// for open().
  bool adopt(CacheAllocation& a, const std::vector<std::vector<BlockId>>& blocks,
             int32_t num_tokens, const StateSnapshot* state, int32_t max_tokens);
  /// Makes room for `new_tokens` positions after the committed ones, copying a shared last block
  /// first. False when blocks are short; nothing changed then.
  bool reserve(CacheAllocation& a, int32_t new_tokens);
  /// Bytes of blocks that reserve() would take.
  int64_t reserve_bytes(const CacheAllocation& a, int32_t new_tokens) const;
  /// Bytes of blocks that growing to `target_tokens` in pieces of `step_tokens` takes at most,
  /// beyond what the sequence holds now.
  int64_t growth_bytes(const CacheAllocation& a, int32_t target_tokens, int32_t step_tokens) const;
  /// Keeps `tokens` of the appended positions, gives back the storage of the others and of blocks
  /// that fell behind a window.
  void commit(CacheAllocation& a, int32_t tokens);
  /// Gives everything back. Idempotent.
  void close(CacheAllocation& a);

  StateSnapshot save_state(const CacheAllocation& a) const;
  void load_state(const CacheAllocation& a, const StateSnapshot& state);

  void share(int32_t group, BlockId id) { pool(group).share(id); }
  void drop(int32_t group, BlockId id);

  const KvLayout& layout() const { return layout_; }
  int64_t budget_bytes() const { return options_.budget_bytes; }
  int64_t live_bytes() const { return live_bytes_; }
  int64_t free_bytes() const { return options_.budget_bytes - live_bytes_; }
  int64_t touched_bytes() const;
  int32_t free_state_rows() const { return static_cast<int32_t>(free_rows_.size()); }
  bool dense() const { return options_.dense; }
  const BlockPool& blocks(int32_t group) const { return pools_[static_cast<size_t>(group)]; }

  ops::PagedKv kv(int layer) const;
  Tensor state(int layer, int index) const;

 private:
  class Region;
  BlockPool& pool(int32_t group) { return pools_[static_cast<size_t>(group)]; }
  BlockId take(int32_t group);
  void copy_block(int32_t group, BlockId from, BlockId to);
  void release_behind_windows(CacheAllocation& a);
  int32_t blocks_for(int64_t tokens) const;

  KvLayout layout_;
  KvCacheOptions options_;
  std::vector<BlockPool> pools_;                // one a group
  std::vector<std::unique_ptr<Region>> k_, v_;  // one a layer; null without blocks
  std::vector<std::vector<Tensor>> states_;     // [layer][index]
  std::vector<int32_t> free_rows_;
  int64_t live_bytes_ = 0;
};

/// The cache as one forward sees it.
class StepCaches final : public nn::LayerCaches {
 public:
  explicit StepCaches(const KvCache& cache);
  /// Adds a segment; `a` must stay as it is until the forward has finished.
  void add(const CacheAllocation& a, int32_t row, int32_t q_len);
  /// Adds segments without rows until there are `count`.
  void pad(int32_t count);

  /// For devices: appends the index arrays of the batch to `out`, and says where the whole of `out`
  /// lies on the device.
  /// With `table_words`, every group's tables are padded to so many words; `max_kv_len` raises the
  /// length that launches are sized for.
  void write_plans(int32_t num_rows, std::vector<int32_t>& out, int32_t table_words = 0,
                   int32_t max_kv_len = 0);
  void bind_plans(const int32_t* base);

  ops::PagedKv kv(int layer) const override;
  std::span<const ops::AttentionSegment> segments(int layer) const override;
  Tensor state(int layer, int index) const override { return cache_->state(layer, index); }

 private:
  const KvCache* cache_;                                      // owned by the runner
  std::vector<std::vector<ops::AttentionSegment>> segments_;  // [group]
  std::vector<ops::AttentionPlanSizes> plan_sizes_;           // [group]
  std::vector<size_t> plan_begins_;                           // [group]
  std::vector<ops::AttentionPlan> plans_;                     // [group]; empty on the CPU
};

}  // namespace mlxcel::engine
