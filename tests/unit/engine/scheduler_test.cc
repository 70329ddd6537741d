#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace mlxcel::engine {
namespace {

struct Case {
  const char* what;
  SchedulerState state;
  SchedulerPolicy policy;
  Action expected;
};

SchedulerPolicy policy_with(bool mixed, int32_t grants, bool preemption) {
  SchedulerPolicy p;
  p.mixed_steps = mixed;
  p.prefill_grant_interval = grants;
  p.preemption = preemption;
  return p;
}

TEST(Scheduler, NextAction) {
  const SchedulerPolicy mixed = policy_with(true, 16, false);
  const SchedulerPolicy split = policy_with(false, 3, false);
  const SchedulerPolicy no_grants = policy_with(false, 0, false);
  const SchedulerPolicy preempting = policy_with(true, 16, true);
  // queued, decoding, free rows, parked, ticks, blocked, outranks
  const Case cases[] = {
      {"nothing at all", {0, 0, 4, false, 0, false, false}, mixed, Action::Idle},
      {"a request, an empty batch", {1, 0, 4, false, 0, false, false}, mixed, Action::Admit},
      {"a request, a free row", {1, 3, 1, false, 0, false, false}, mixed, Action::Admit},
      {"a request, a full batch", {1, 4, 0, false, 0, false, false}, mixed, Action::Decode},
      {"a request that waits for blocks", {1, 2, 2, false, 0, true, false}, mixed, Action::Decode},
      {"only a request that waits", {1, 0, 4, false, 0, true, false}, mixed, Action::Idle},
      {"rows only", {0, 2, 2, false, 0, false, false}, mixed, Action::Decode},
      {"a parked prefill alone", {0, 0, 3, true, 0, false, false}, mixed, Action::PrefillChunk},
      {"a parked prefill before admission",
       {5, 0, 3, true, 0, false, false},
       mixed,
       Action::PrefillChunk},
      {"a parked prefill beside rows", {5, 2, 1, true, 0, false, false}, mixed, Action::Mixed},
      {"split: rows first", {5, 2, 1, true, 0, false, false}, split, Action::Decode},
      {"split: not yet", {0, 2, 1, true, 2, false, false}, split, Action::Decode},
      {"split: granted", {0, 2, 1, true, 3, false, false}, split, Action::PrefillChunk},
      {"split: no rows, no waiting", {0, 0, 3, true, 0, false, false}, split, Action::PrefillChunk},
      {"no grants: rows go on", {0, 2, 1, true, 1000, false, false}, no_grants, Action::Decode},
      {"no grants: until they end",
       {0, 0, 3, true, 1000, false, false},
       no_grants,
       Action::PrefillChunk},
      {"full and outranked, no preemption",
       {1, 4, 0, false, 0, false, true},
       mixed,
       Action::Decode},
      {"full and outranked", {1, 4, 0, false, 0, false, true}, preempting, Action::Preempt},
      {"full, same rank", {1, 4, 0, false, 0, false, false}, preempting, Action::Decode},
      {"outranked, but a row is free", {1, 3, 1, false, 0, false, true}, preempting, Action::Admit},
      {"outranked, but blocked", {1, 4, 0, false, 0, true, true}, preempting, Action::Decode},
  };
  for (const Case& c : cases) {
    EXPECT_STREQ(action_name(next_action(c.state, c.policy)), action_name(c.expected)) << c.what;
  }
}

// A prompt of C pieces beside decoding rows is through after C * (N + 1) ticks.
TEST(Scheduler, GrantsBoundTheWaitOfAPrefill) {
  for (const int32_t interval : {1, 4, 16}) {
    const SchedulerPolicy policy = policy_with(false, interval, false);
    SchedulerState state{0, 2, 1, true, 0, false, false};
    int32_t pieces = 5;
    int32_t ticks = 0;
    for (; pieces > 0; ++ticks) {
      if (next_action(state, policy) == Action::PrefillChunk) {
        --pieces;
        state.decode_ticks_since_prefill = 0;
      } else {
        ++state.decode_ticks_since_prefill;
      }
    }
    EXPECT_EQ(ticks, 5 * (interval + 1));
  }
}

TEST(Scheduler, ChunkSize) {
  SchedulerPolicy policy;
  EXPECT_EQ(chunk_tokens(policy, false), 2048);
  EXPECT_EQ(chunk_tokens(policy, true), 512);
  policy.prefill_chunk_tokens = 64;
  EXPECT_EQ(chunk_tokens(policy, false), 64);
  EXPECT_EQ(chunk_tokens(policy, true), 64);
  policy.prefill_chunk_tokens = 0;
  EXPECT_EQ(chunk_tokens(policy, true), std::numeric_limits<int32_t>::max());
}

TEST(Scheduler, SplitsAChunkInOrder) {
  using V = std::vector<int32_t>;
  EXPECT_EQ(split_chunk(V{300, 300, 300}, 512), (V{300, 212, 0}));
  EXPECT_EQ(split_chunk(V{1000}, 512), (V{512}));
  EXPECT_EQ(split_chunk(V{5, 6}, 512), (V{5, 6}));
  EXPECT_EQ(split_chunk(V{}, 512), V{});
}

TEST(Scheduler, CohortSize) {
  using V = std::vector<int32_t>;
  SchedulerPolicy policy;  // 4 sequences, 4096 tokens
  EXPECT_EQ(cohort_size(V{10, 10, 10, 10, 10, 10}, policy, 8), 4);
  EXPECT_EQ(cohort_size(V{10, 10, 10, 10}, policy, 2), 2);
  EXPECT_EQ(cohort_size(V{10, 10}, policy, 0), 0);
  EXPECT_EQ(cohort_size(V{}, policy, 4), 0);
  EXPECT_EQ(cohort_size(V{2049, 10}, policy, 4), 1);  // by itself, in pieces
  EXPECT_EQ(cohort_size(V{2000, 2000, 2000}, policy, 4), 2);
  EXPECT_EQ(cohort_size(V{10, 5000, 10}, policy, 4), 1);  // the window stops at what does not fit
  policy.max_batch_prefill_tokens = 0;                    // no limit
  EXPECT_EQ(cohort_size(V{9000, 9000}, policy, 4), 2);
  policy.max_batch_prefill = 1;
  EXPECT_EQ(cohort_size(V{9000, 9000}, policy, 4), 1);
}

TEST(Scheduler, BatchVictim) {
  const std::vector<RowInfo> rows = {
      {Priority::Normal, 50, 60, 1}, {Priority::Low, 10, 70, 2}, {Priority::Low, 5, 90, 3}};
  using P = PreemptionPolicy;
  EXPECT_EQ(batch_victim(rows, Priority::High, P::LongestFirst), 0U);
  EXPECT_EQ(batch_victim(rows, Priority::High, P::LowestPriority), 2U);
  EXPECT_EQ(batch_victim(rows, Priority::Normal, P::LongestFirst), 1U);
  EXPECT_EQ(batch_victim(rows, Priority::Low, P::LongestFirst), std::nullopt);
  EXPECT_EQ(batch_victim({}, Priority::High, P::LongestFirst), std::nullopt);
}

TEST(Scheduler, BlockVictim) {
  const std::vector<RowInfo> rows = {{Priority::High, 0, 10, 1},
                                     {Priority::Normal, 3, 60, 2},
                                     {Priority::Low, 3, 40, 3},
                                     {Priority::Low, 9, 40, 4}};
  EXPECT_EQ(block_victim(rows, std::nullopt), 0U);
  EXPECT_EQ(block_victim(rows, Priority::High), 2U);
  EXPECT_EQ(block_victim(rows, Priority::Normal), 2U);
  EXPECT_EQ(block_victim(rows, Priority::Low), std::nullopt);
  const std::vector<RowInfo> equal(3, RowInfo{Priority::Normal, 1, 1, 0});
  EXPECT_EQ(block_victim(equal, std::nullopt), 0U);
}

}  // namespace
}  // namespace mlxcel::engine
