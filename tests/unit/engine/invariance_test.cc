// Output never depends on load: the same bits alone and in batches, in one piece and in chunks,
// cold and cached, preempted or not.
#include <gtest/gtest.h>

#include "engine/kv_layout.h"
#include "harness.h"

namespace mlxcel::engine::testing {
namespace {

class InvarianceTest : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  InvarianceTest() {
    const FakeConfig configs[] = {FakeConfig{}, windowed_config(6), hybrid_config()};
    model = std::make_shared<FakeLm>(configs[std::get<0>(GetParam())]);
  }
  static Request request(size_t index) {
    const size_t length = 3 + index * 7 % 60;
    const auto tokens = static_cast<int32_t>(8 + index % 5);
    return std::get<1>(GetParam()) ? seeded(random_prompt(length, index), tokens, index)
                                   : greedy(random_prompt(length, index), tokens);
  }
  void expect_all(const EngineOptions& options, size_t count, int rounds = 1) {
    auto engine = Engine::start(model, plain_tokenizer(), options);
    for (int round = 0; round < rounds; ++round) {
      std::vector<Request> requests;
      for (size_t i = 0; i < count; ++i) requests.push_back(request(i));
      const auto out = run_all(*engine, requests);
      ASSERT_EQ(out.size(), count);
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(out[i].ids, expected_ids(*model, requests[i])) << i << " of " << count;
      }
    }
    engine->check();
    last_engine = std::move(engine);
  }
  std::shared_ptr<FakeLm> model;
  std::unique_ptr<Engine> last_engine;
};

TEST_P(InvarianceTest, AloneAndInBatches) {
  for (const int32_t batch : {1, 2, 3, 7, 16}) {
    EngineOptions options = test_options(batch);
    options.prefix_cache = false;
    options.max_batch_prefill = 16;
    expect_all(options, static_cast<size_t>(batch));
  }
}

TEST_P(InvarianceTest, InOnePieceAndInChunks) {
  for (const int32_t chunk : {0, 1, 17, 64, 512}) {
    EngineOptions options = test_options(3);
    options.prefix_cache = false;
    options.prefill_chunk_tokens = chunk;
    expect_all(options, 9);
    options.mixed_steps = false;
    options.prefill_grant_interval = 2;
    expect_all(options, 9);
  }
}

TEST_P(InvarianceTest, ColdAndCached) {
  for (const bool dense : {false, true}) {
    EngineOptions options = test_options(3);
    options.dense_kv = dense;
    expect_all(options, 9, 3);
    EXPECT_GT(counter(*last_engine, "prefix_cache", "hits"), 5);
  }
}

TEST_P(InvarianceTest, BlocksOfAnySize) {
  for (const int32_t block : {1, 3, 16, 64}) {
    EngineOptions options = test_options(3);
    options.block_tokens = block;
    expect_all(options, 6, 2);
  }
}

TEST_P(InvarianceTest, PreemptedForBlocksAndResumed) {
  for (const bool cache : {false, true}) {
    EngineOptions options = test_options(6);
    options.prefix_cache = cache;
    options.context_tokens = 80;
    options.admission_watermark = 0;
    const KvLayout layout = make_kv_layout(model->spec().caches, 4, DType::F32);
    options.kv_budget_bytes = layout.sequence_bytes(80, 80) + 4 * layout.groups[0].block_bytes +
                              layout.sequence_bytes(4, 4);
    auto engine = Engine::start(model, plain_tokenizer(), options);
    std::vector<Request> requests;
    for (size_t i = 0; i < 12; ++i) {
      requests.push_back(request(i));
      requests.back().prompt = random_prompt(4 + i % 3, i);
      requests.back().max_tokens = 60;
    }
    const auto out = run_all(*engine, requests);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(out[i].done) << out[i].error->what();
      EXPECT_EQ(out[i].ids, expected_ids(*model, requests[i])) << i;
      EXPECT_EQ(out[i].text, plain_tokenizer()->decode(out[i].ids, true));
    }
    EXPECT_GT(counter(*engine, "counters", "preemptions_blocks"), 0);
    engine->check();
  }
}

TEST_P(InvarianceTest, PreemptedForPriorityAndResumed) {
  for (const auto policy : {PreemptionPolicy::LongestFirst, PreemptionPolicy::LowestPriority}) {
    EngineOptions options = test_options(2);
    options.preemption = true;
    options.preemption_policy = policy;
    auto engine = Engine::start(model, plain_tokenizer(), options);
    std::vector<Request> requests;
    std::vector<std::shared_ptr<CollectSink>> sinks;
    for (size_t i = 0; i < 6; ++i) {
      requests.push_back(request(i));
      requests.back().max_tokens = 60;
      requests.back().priority = i < 2 ? Priority::Low : i < 4 ? Priority::Normal : Priority::High;
      sinks.push_back(std::make_shared<CollectSink>());
      ASSERT_TRUE(engine->submit(requests.back(), sinks.back()).ok());
      sinks.back()->wait_tokens(1);  // so that each pair pushes the one before out
    }
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(sinks[i]->wait().ids, expected_ids(*model, requests[i])) << i;
    }
    EXPECT_GT(counter(*engine, "counters", "preemptions_batch"), 0);
    engine->check();
  }
}

TEST_P(InvarianceTest, WithAndWithoutLookahead) {
  ::setenv("MLXCEL_FORCE_SYNC", "", 1);
  expect_all(test_options(4), 8, 2);
  ::unsetenv("MLXCEL_FORCE_SYNC");
  expect_all(test_options(4), 8, 2);
  EngineOptions options = test_options(4);
  options.batching = false;
  expect_all(options, 4);
  EXPECT_EQ(counter(*last_engine, "batch_rows", "max"), 1);
}

INSTANTIATE_TEST_SUITE_P(Models, InvarianceTest,
                         ::testing::Combine(::testing::Values(0, 1, 2), ::testing::Bool()));

}  // namespace
}  // namespace mlxcel::engine::testing
