// Scheduling policy as pure functions of small values: same load, same answer. The engine collects
// the values and carries the answers out; nothing here knows a model, a cache or a clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mlxcel::engine {

enum class Priority : uint8_t { High, Normal, Low };
enum class PreemptionPolicy : uint8_t { LongestFirst, LowestPriority };

struct SchedulerPolicy {
  std::optional<int32_t> prefill_chunk_tokens;  // unset: adaptive; 0 = one piece
  int32_t prefill_grant_interval = 16;          // 0 = no grants
  int32_t max_batch_prefill = 4, max_batch_prefill_tokens = 4096;
  bool mixed_steps = true;
  bool preemption = false;
  PreemptionPolicy preemption_policy = PreemptionPolicy::LongestFirst;
};

/// What the policy may look at. Built once a tick, and again after an admission or a preemption.
struct SchedulerState {
  int32_t num_queued = 0, num_decoding = 0, num_free_rows = 0;
  bool prefill_parked = false;             // admitted prompts are not yet computed
  int32_t decode_ticks_since_prefill = 0;  // decode steps while a prefill was parked
  bool admission_blocked = false;          // the queue head did not fit and nothing was freed since
  bool head_outranks_a_row = false;        // a running row has a lower priority than the queue head
};

enum class Action : uint8_t { Idle, Admit, PrefillChunk, Decode, Mixed, Preempt };
const char* action_name(Action action);

/// A parked prefill comes first (with the decode rows when steps are mixed, else one piece every
/// `prefill_grant_interval` decode steps), then admission, then decoding. Admit and Preempt run no
/// forward: the caller carries them out and asks again.
Action next_action(const SchedulerState& state, const SchedulerPolicy& policy);

/// Prompt tokens one step may take: the pinned size, else 2048 alone and 512 beside decoding rows.
int32_t chunk_tokens(const SchedulerPolicy& policy, bool decoding);

/// How many of `remaining` prompt tokens each prefilling sequence contributes to one step: in
/// order, until `budget` is spent.
std::vector<int32_t> split_chunk(std::span<const int32_t> remaining, int32_t budget);

/// How many sequences from the head of one lane are admitted together. `lengths` are their prompt
/// tokens. A head that alone takes more than half the token budget goes by itself, in pieces.
int32_t cohort_size(std::span<const int32_t> lengths, const SchedulerPolicy& policy,
                    int32_t num_free_rows);

/// What victim selection sees of a running row.
struct RowInfo {
  Priority priority = Priority::Normal;
  int32_t num_generated = 0, num_computed = 0;
  uint64_t arrival = 0;  // order of submission
};

/// The row that makes room in a full batch for a waiting request of priority `waiting`: among rows
/// of strictly lower priority the one with most generated tokens (longest-first) or of the lowest
/// lane. Ties go to the latest arrival.
std::optional<size_t> batch_victim(std::span<const RowInfo> rows, Priority waiting,
                                   PreemptionPolicy policy);
/// The row that gives up its blocks: the one with least progress, of strictly lower priority than
/// `outranked_by` when that is set. Ties go to the latest arrival.
std::optional<size_t> block_victim(std::span<const RowInfo> rows,
                                   std::optional<Priority> outranked_by);

}  // namespace mlxcel::engine
