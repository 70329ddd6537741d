// Counters and histograms of one engine. Written by the engine thread, read by any thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/json.h"

namespace mlxcel::engine {

/// Counts of values per bucket, with upper bounds that grow by steps of 1, 2, 5 per decade.
class Histogram {
 public:
  /// Bounds from `first` (a power of ten) over `decades` decades; larger values have a bucket of
  /// their own.
  Histogram(double first, int decades);
  void add(double value);
  /// {"count", "sum", "max", "buckets": [{"le", "count"} ...]}; counts are cumulative, the last
  /// bound is null (infinity).
  Json json() const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // one more than bounds
  int64_t count_ = 0;
  double sum_ = 0, max_ = 0;
};

/// Values of the moment, refreshed after each step.
struct Gauges {
  int32_t queued = 0, prefilling = 0, decoding = 0;
  int64_t blocks_free = 0, blocks_used = 0, blocks_cached = 0;  // of the first block group
  int64_t kv_budget_bytes = 0, kv_live_bytes = 0, kv_touched_bytes = 0, kv_cached_bytes = 0;
  int32_t free_state_rows = 0;
  bool failed = false;
};

struct Counters {
  int64_t submitted = 0, rejected = 0, finished_stop = 0, finished_length = 0, cancelled = 0,
          errors = 0, deadlines = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, computed_prompt_tokens = 0, generated_tokens = 0;
  int64_t steps = 0, decode_steps = 0, prefill_steps = 0, mixed_steps = 0;
  int64_t prefill_grants = 0, batch_prefill_grants = 0, admissions = 0, admission_waits = 0;
  int64_t preemptions_batch = 0, preemptions_blocks = 0, failed_steps = 0, unwound_tokens = 0;
  double forward_ms = 0, host_ms = 0;
  // Of ended sequences: from admission to the first token, from there to the last.
  double prefill_ms = 0, decode_ms = 0;
  int64_t longest_tokens = 0;  // prompt and answer of the longest of them
};

/// Of the prefix cache; all zero when it is switched off.
struct PrefixStats {
  int64_t lookups = 0, hits = 0, partial_block_hits = 0, tokens_reused = 0, tokens_looked_up = 0;
  int64_t donations = 0, blocks_stored = 0, blocks_evicted = 0, expired = 0, rejected = 0;
  int64_t snapshot_hits = 0, snapshot_misses = 0, snapshot_tokens_reused = 0;
  // Held now.
  int64_t blocks = 0, entries = 0, bytes = 0, capacity_bytes = 0, snapshots = 0, snapshot_bytes = 0;
  Json json() const;
};

class EngineStats {
 public:
  EngineStats();
  /// Changes counters, histograms and gauges under the lock.
  template <class Fn>
  void update(Fn&& fn) {
    const std::lock_guard lock(mutex_);
    fn(*this);
  }
  /// Everything as one object.
  Json json() const;

  Counters counters;
  Gauges gauges;
  PrefixStats prefix;
  Histogram queue_ms, ttft_ms, itl_ms, batch_rows, batch_tokens, step_host_us;

 private:
  mutable std::mutex mutex_;  // guards every member
};

}  // namespace mlxcel::engine
