#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace mlxcel::engine {
namespace {

constexpr int32_t kIdleChunk = 2048;
constexpr int32_t kBusyChunk = 512;

// The index with the greatest key among the rows that `eligible` accepts.
template <class Eligible, class Key>
std::optional<size_t> best_row(std::span<const RowInfo> rows, Eligible&& eligible, Key&& key) {
  std::optional<size_t> best;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!eligible(rows[i])) continue;
    if (!best || key(rows[i]) > key(rows[*best])) best = i;
  }
  return best;
}

}  // namespace

const char* action_name(Action action) {
  switch (action) {
    case Action::Idle:
      return "idle";
    case Action::Admit:
      return "admit";
    case Action::PrefillChunk:
      return "prefill";
    case Action::Decode:
      return "decode";
    case Action::Mixed:
      return "mixed";
    case Action::Preempt:
      return "preempt";
  }
  return "unknown";
}

Action next_action(const SchedulerState& state, const SchedulerPolicy& policy) {
  if (state.prefill_parked) {
    if (state.num_decoding == 0) return Action::PrefillChunk;
    if (policy.mixed_steps) return Action::Mixed;
    const bool granted = policy.prefill_grant_interval > 0 &&
                         state.decode_ticks_since_prefill >= policy.prefill_grant_interval;
    return granted ? Action::PrefillChunk : Action::Decode;
  }
  if (state.num_queued > 0 && !state.admission_blocked) {
    if (state.num_free_rows > 0) return Action::Admit;
    if (policy.preemption && state.head_outranks_a_row) return Action::Preempt;
  }
  return state.num_decoding > 0 ? Action::Decode : Action::Idle;
}

int32_t chunk_tokens(const SchedulerPolicy& policy, bool decoding) {
  if (policy.prefill_chunk_tokens) {
    const int32_t pinned = *policy.prefill_chunk_tokens;
    return pinned > 0 ? pinned : std::numeric_limits<int32_t>::max();
  }
  return decoding ? kBusyChunk : kIdleChunk;
}

std::vector<int32_t> split_chunk(std::span<const int32_t> remaining, int32_t budget) {
  std::vector<int32_t> pieces;
  pieces.reserve(remaining.size());
  for (const int32_t tokens : remaining) {
    pieces.push_back(std::min(tokens, budget));
    budget -= pieces.back();
  }
  return pieces;
}

int32_t cohort_size(std::span<const int32_t> lengths, const SchedulerPolicy& policy,
                    int32_t num_free_rows) {
  if (lengths.empty() || num_free_rows <= 0) return 0;
  const int64_t budget = policy.max_batch_prefill_tokens > 0 ? policy.max_batch_prefill_tokens
                                                             : std::numeric_limits<int64_t>::max();
  if (int64_t{lengths[0]} * 2 > budget) return 1;
  const auto most =
      static_cast<size_t>(std::min(std::max(policy.max_batch_prefill, 1), num_free_rows));
  int64_t sum = 0;
  size_t count = 0;
  while (count < std::min(most, lengths.size()) && sum + lengths[count] <= budget) {
    sum += lengths[count];
    ++count;
  }
  return static_cast<int32_t>(count);
}

std::optional<size_t> batch_victim(std::span<const RowInfo> rows, Priority waiting,
                                   PreemptionPolicy policy) {
  const auto eligible = [&](const RowInfo& r) { return r.priority > waiting; };
  if (policy == PreemptionPolicy::LongestFirst) {
    return best_row(rows, eligible,
                    [](const RowInfo& r) { return std::tuple(r.num_generated, r.arrival); });
  }
  return best_row(rows, eligible,
                  [](const RowInfo& r) { return std::tuple(r.priority, r.arrival); });
}

std::optional<size_t> block_victim(std::span<const RowInfo> rows,
                                   std::optional<Priority> outranked_by) {
  return best_row(
      rows, [&](const RowInfo& r) { return !outranked_by || r.priority > *outranked_by; },
      [](const RowInfo& r) { return std::tuple(-r.num_generated, -r.num_computed, r.arrival); });
}

}  // namespace mlxcel::engine
