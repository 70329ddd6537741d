// The engine as its clients see it: streams, ends, errors.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness.h"

namespace mlxcel::engine::testing {
namespace {

TEST(Engine, GreedyStreamEqualsTheOracle) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, plain_tokenizer(), test_options());
  const Request request = greedy(random_prompt(37, 1), 25);
  const Outcome out = run_one(*engine, request);
  ASSERT_TRUE(out.done);
  EXPECT_EQ(out.ids, expected_ids(*model, request));
  EXPECT_EQ(out.text, plain_tokenizer()->decode(out.ids, true));
  EXPECT_EQ(out.done->reason, Finish::Length);
  EXPECT_EQ(out.done->num_prompt, 37);
  EXPECT_EQ(out.done->num_generated, 25);
  EXPECT_GE(out.done->prefill_ms, 0);
}

TEST(Engine, SeededStreamEqualsTheOracle) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, plain_tokenizer(), test_options());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Request request = seeded(random_prompt(5 + seed, seed), 20, seed);
    EXPECT_EQ(run_one(*engine, request).ids, expected_ids(*model, request));
  }
}

TEST(Engine, EndOfTextIdsEndTheTextAndAreNotPartOfIt) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, plain_tokenizer(), test_options());
  Request request = greedy(random_prompt(9, 3), 30);
  const auto all = expected_ids(*model, request);
  request.stop_ids = {all[7]};
  const Outcome out = run_one(*engine, request);
  ASSERT_TRUE(out.done);
  EXPECT_EQ(out.done->reason, Finish::Stop);
  EXPECT_EQ(out.ids, expected_ids(*model, request));
  EXPECT_LE(out.ids.size(), 7U);
  EXPECT_EQ(out.done->matched_stop, "");
  request.sampling.ignore_eos = true;
  EXPECT_EQ(run_one(*engine, request).done->reason, Finish::Length);
}

TEST(Engine, ZeroTokensComputesThePromptOnly) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, plain_tokenizer(), test_options());
  const Outcome out = run_one(*engine, greedy(random_prompt(9, 3), 0));
  ASSERT_TRUE(out.done);
  EXPECT_EQ(out.done->reason, Finish::Length);
  EXPECT_EQ(out.done->num_generated, 0);
  EXPECT_EQ(run_one(*engine, greedy(random_prompt(9, 3), 1)).done->num_cached, 8);
}

TEST(Engine, EndsWhenTheContextIsFull) {
  auto model = std::make_shared<FakeLm>();
  EngineOptions options = test_options();
  options.context_tokens = 40;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  EXPECT_EQ(engine->context_tokens(), 40);
  const Outcome out = run_one(*engine, greedy(random_prompt(30, 3), -1));
  ASSERT_TRUE(out.done);
  EXPECT_EQ(out.done->reason, Finish::Length);
  EXPECT_EQ(out.done->num_generated, 10);
}

TEST(Engine, MaxKvSizeTurnsFullAttentionIntoAWindow) {
  auto full = std::make_shared<FakeLm>();
  FakeConfig config;
  for (nn::CacheSpec& c : config.layers) {
    c.kind = nn::CacheSpec::Kind::Window;
    c.window = 16;
  }
  const FakeLm windowed(config);
  for (const bool batching : {true, false}) {
    EngineOptions options = test_options();
    options.batching = batching;
    options.max_kv_tokens = 16;
    auto engine = Engine::start(full, plain_tokenizer(), options);
    EXPECT_EQ(engine->context_tokens(), 4096);
    for (const size_t length : {size_t{5}, size_t{40}}) {
      const Request r = greedy(random_prompt(length, length), 60);
      EXPECT_EQ(run_one(*engine, r).ids, expected_ids(windowed, r));
    }
  }
}

TEST(Engine, EndsAnAnswerThatLoops) {
  auto engine = Engine::start(std::make_shared<FakeLm>(), plain_tokenizer(), test_options());
  Request r = greedy(random_prompt(5, 1), 200);
  r.sampling.logit_bias = {{7, 1000.0F}};  // only one token is ever drawn
  EXPECT_EQ(run_one(*engine, r).done->num_generated, 200);
  r.loop_detection = {.min_pattern_size = 1, .max_pattern_size = 20, .min_count = 12};
  const Outcome out = run_one(*engine, r);
  EXPECT_EQ(out.done->num_generated, 12);
  EXPECT_EQ(out.done->reason, Finish::Stop);
  r.loop_detection.min_count = 1;
  EXPECT_FALSE(engine->submit(r, std::make_shared<CollectSink>()).ok());
}

TEST(Engine, RefusesWhatCannotRun) {
  auto model = std::make_shared<FakeLm>();
  EngineOptions options = test_options();
  options.context_tokens = 40;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  const auto refusal = [&](Request r) {
    const auto id = engine->submit(std::move(r), std::make_shared<CollectSink>());
    return id.ok() ? std::string("accepted") : std::string(id.error().what());
  };
  EXPECT_THAT(refusal(greedy({}, 1)), ::testing::HasSubstr("no tokens"));
  EXPECT_THAT(refusal(greedy({1, 64}, 1)), ::testing::HasSubstr("64"));
  EXPECT_THAT(refusal(greedy({-1}, 1)), ::testing::HasSubstr("-1"));
  const std::string too_long = refusal(greedy(random_prompt(40, 1), 1));
  EXPECT_THAT(too_long, ::testing::HasSubstr("40 tokens"));
  EXPECT_THAT(refusal(greedy({1}, -2)), ::testing::HasSubstr("max_tokens"));
  Request empty_stop = greedy({1}, 1);
  empty_stop.stop_strings = {""};
  EXPECT_THAT(refusal(empty_stop), ::testing::HasSubstr("stop string"));
  Request cold = greedy({1}, 1);
  cold.sampling.temperature = -1;
  EXPECT_NE(refusal(cold), "accepted");
  EXPECT_EQ(counter(*engine, "counters", "requests_rejected"), 7);
}

TEST(Engine, CancelledBeforeWhileAndAfter) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, plain_tokenizer(), test_options(1));
  auto running = std::make_shared<CollectSink>();
  auto waiting = std::make_shared<CollectSink>();
  const auto first = engine->submit(greedy(random_prompt(5, 1), -1), running);
  const auto second = engine->submit(greedy(random_prompt(5, 2), -1), waiting);
  running->wait_tokens(3);
  engine->cancel(second.value());
  EXPECT_EQ(waiting->wait().done->reason, Finish::Cancelled);
  engine->cancel(first.value());
  const Outcome out = running->wait();
  EXPECT_EQ(out.done->reason, Finish::Cancelled);
  EXPECT_EQ(out.done->num_generated, static_cast<int32_t>(out.ids.size()));
  engine->cancel(first.value());
  engine->cancel(12345);
  engine->check();
}

TEST(Engine, DestroyedWhileRunning) {
  auto model = std::make_shared<FakeLm>();
  std::vector<std::shared_ptr<CollectSink>> sinks;
  {
    auto engine = Engine::start(model, plain_tokenizer(), test_options(2));
    for (int i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<CollectSink>());
      ASSERT_TRUE(engine->submit(greedy(random_prompt(50, 1), -1), sinks.back()).ok());
    }
    sinks[0]->wait_tokens(2);
  }
  for (const auto& sink : sinks) {
    const Outcome out = sink->wait();
    EXPECT_EQ(out.final_events, 1);
    EXPECT_EQ(out.done->reason, Finish::Cancelled);
  }
}

// A long prompt never holds a stream back by more than one piece of 512 tokens.
TEST(Engine, AStreamGetsATokenWithEveryPieceOfALongPrompt) {
  FakeConfig config;
  config.layers = {nn::CacheSpec::full(1, 1)};
  auto model = std::make_shared<FakeLm>(config);
  model->trivial = true;
  std::vector<std::pair<size_t, int64_t>> steps;  // rows and tokens
  model->before_forward = [&](const nn::Batch& batch) {
    steps.emplace_back(batch.segments.size(), batch.token_ids.numel());
  };
  EngineOptions options = test_options(2);
  options.context_tokens = 100000;
  auto engine = Engine::start(model, nullptr, options);
  auto stream = std::make_shared<CollectSink>();
  const auto id = engine->submit(greedy({1, 2, 3}, -1), stream);
  stream->wait_tokens(3);
  EXPECT_EQ(run_one(*engine, greedy(random_prompt(4000, 1), 1)).ids.size(), 1U);
  engine->cancel(id.value());
  stream->wait();
  engine.reset();
  int64_t prompt_tokens = 0;
  for (const auto& [rows, tokens] : steps) {
    EXPECT_LE(tokens, 512 + 1);
    if (tokens > 3) {
      EXPECT_EQ(rows, 2U);
      prompt_tokens += tokens - 1;
    }
  }
  EXPECT_EQ(prompt_tokens, 4000);
}

TEST(Engine, ScoreGivesTheLogitsOfEveryPosition) {
  auto model = std::make_shared<FakeLm>();
  auto engine = Engine::start(model, nullptr, test_options());
  const auto tokens = random_prompt(50, 9);
  const auto reference = model->reference(tokens);
  for (const int32_t chunk : {0, 1, 7, 64}) {
    const Tensor logits = engine->score(tokens, chunk).value();
    ASSERT_TRUE(logits.shape() == (Shape{50, 64}));
    const auto values = logits.host<float>();
    for (size_t i = 0; i < 50; ++i) {
      for (size_t v = 0; v < 64; ++v) ASSERT_EQ(values[i * 64 + v], reference[i][v]);
    }
  }
  EXPECT_FALSE(engine->score({}, 0).ok());
  EXPECT_FALSE(engine->score({1, 99}, 0).ok());
  engine->check();
}

}  // namespace
}  // namespace mlxcel::engine::testing
