#include "engine/stats.h"

#include <algorithm>

namespace mlxcel::engine {

Histogram::Histogram(double first, int decades) {
  for (int d = 0; d < decades; ++d, first *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) bounds_.push_back(first * step);
  }
  bounds_.push_back(first);
  counts_.resize(bounds_.size() + 1);
}

void Histogram::add(double value) {
  const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<size_t>(it - bounds_.begin())];
  ++count_;
  sum_ += value;
  max_ = std::max(max_, value);
}

Json Histogram::json() const {
  Json buckets = Json::array();
  int64_t sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    sum += counts_[i];
    Json bound = i < bounds_.size() ? Json(bounds_[i]) : Json();
    buckets.push_back(Json::object({{"le", std::move(bound)}, {"count", sum}}));
  }
  return Json::object(
      {{"count", count_}, {"sum", sum_}, {"max", max_}, {"buckets", std::move(buckets)}});
}

EngineStats::EngineStats()
    : queue_ms(0.1, 7),
      ttft_ms(0.1, 7),
      itl_ms(0.1, 6),
      batch_rows(1, 3),
      batch_tokens(1, 5),
      step_host_us(1, 6) {}

Json PrefixStats::json() const {
  return Json::object({{"lookups", lookups},
                       {"hits", hits},
                       {"partial_block_hits", partial_block_hits},
                       {"tokens_looked_up", tokens_looked_up},
                       {"tokens_reused", tokens_reused},
                       {"donations", donations},
                       {"total_blocks_stored", blocks_stored},
                       {"blocks_evicted", blocks_evicted},
                       {"blocks_expired", expired},
                       {"rejected", rejected},
                       {"unique_block_hashes", blocks},
                       {"apc_active_entries", entries},
                       {"bytes", bytes},
                       {"capacity_bytes", capacity_bytes},
                       {"snapshots", snapshots},
                       {"snapshot_bytes", snapshot_bytes},
                       {"snapshot_hits", snapshot_hits},
                       {"snapshot_misses", snapshot_misses},
                       {"snapshot_tokens_reused", snapshot_tokens_reused}});
}

Json EngineStats::json() const {
  const std::lock_guard lock(mutex_);
  const Counters& c = counters;
  const Gauges& g = gauges;
  Json counts = Json::object({{"requests_submitted", c.submitted},
                              {"requests_rejected", c.rejected},
                              {"finished_stop", c.finished_stop},
                              {"finished_length", c.finished_length},
                              {"cancelled", c.cancelled},
                              {"errors", c.errors},
                              {"deadlines", c.deadlines},
                              {"prompt_tokens", c.prompt_tokens},
                              {"cached_tokens", c.cached_tokens},
                              {"computed_prompt_tokens", c.computed_prompt_tokens},
                              {"generated_tokens", c.generated_tokens},
                              {"steps", c.steps},
                              {"decode_steps", c.decode_steps},
                              {"prefill_steps", c.prefill_steps},
                              {"mixed_steps", c.mixed_steps},
                              {"prefill_grants", c.prefill_grants},
                              {"batch_prefill_grants", c.batch_prefill_grants},
                              {"admissions", c.admissions},
                              {"admission_waits", c.admission_waits},
                              {"preemptions_batch", c.preemptions_batch},
                              {"preemptions_blocks", c.preemptions_blocks},
                              {"failed_steps", c.failed_steps},
                              {"unwound_tokens", c.unwound_tokens},
                              {"forward_ms", c.forward_ms},
                              {"host_ms", c.host_ms},
                              {"prefill_ms", c.prefill_ms},
                              {"decode_ms", c.decode_ms},
                              {"longest_tokens", c.longest_tokens}});
  Json now = Json::object({{"queued", g.queued},
                           {"prefilling", g.prefilling},
                           {"decoding", g.decoding},
                           {"blocks_free", g.blocks_free},
                           {"blocks_used", g.blocks_used},
                           {"blocks_cached", g.blocks_cached},
                           {"kv_budget_bytes", g.kv_budget_bytes},
                           {"kv_live_bytes", g.kv_live_bytes},
                           {"kv_touched_bytes", g.kv_touched_bytes},
                           {"kv_cached_bytes", g.kv_cached_bytes},
                           {"free_state_rows", g.free_state_rows}});
  return Json::object({{"state", g.failed ? "failed" : "running"},
                       {"counters", std::move(counts)},
                       {"gauges", std::move(now)},
                       {"queue_ms", queue_ms.json()},
                       {"ttft_ms", ttft_ms.json()},
                       {"itl_ms", itl_ms.json()},
                       {"batch_rows", batch_rows.json()},
                       {"batch_tokens", batch_tokens.json()},
                       {"step_host_us", step_host_us.json()},
                       {"prefix_cache", prefix.json()}});
}

}  // namespace mlxcel::engine
