// What goes wrong ends alone, with one final event, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "engine/kv_layout.h"
#include "harness.h"
#include "testing/paths.h"

namespace mlxcel::engine::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Lets forwards through one by one, or all at once.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || permits_ > 0; });
    if (!open_) --permits_;
    --waiting_;
  }
  void allow(int n) {
    const std::lock_guard lock(mutex_);
    permits_ += n;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_forward() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0 && permits_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int permits_ = 0, waiting_ = 0;
  bool open_ = false;
};

struct Submitted {
  RequestId id = 0;
  std::shared_ptr<CollectSink> sink = std::make_shared<CollectSink>();
};

Submitted submit(Engine& engine, Request request) {
  Submitted s;
  s.id = engine.submit(std::move(request), s.sink).value();
  return s;
}

TEST(Faults, AFailingRowEndsAlone) {
  auto model = std::make_shared<FakeLm>();
  model->poison_token = 63;
  auto engine = Engine::start(model, plain_tokenizer(), test_options(4));
  std::vector<Request> requests;
  for (size_t i = 0; i < 4; ++i) requests.push_back(greedy(random_prompt(10, i, 60), 12));
  for (Request& r : requests) r.sampling.logit_bias = {{63, -INFINITY}};
  requests[2].prompt.back() = 63;
  const auto out = run_all(*engine, requests);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out[i].error.has_value(), i == 2);
    EXPECT_EQ(out[i].ids.size(), i == 2 ? 0U : 12U);
  }
  EXPECT_EQ(counter(*engine, "counters", "errors"), 1);
  EXPECT_EQ(counter(*engine, "counters", "failed_steps"), 0);
  engine->check();
}

TEST(Faults, AFailingForwardEndsTheRowsOfItsStep) {
  auto model = std::make_shared<FakeLm>();
  std::atomic<bool> broken = false;
  model->before_forward = [&](const nn::Batch&) {
    if (broken) throw Error(Code::Internal, "kernel launch failed");
  };
  auto engine = Engine::start(model, plain_tokenizer(), test_options(2));
  for (int round = 0; round < 10; ++round) {
    const Request request = greedy(random_prompt(10, 1), 5);
    broken = true;
    const auto out = run_all(*engine, {request, greedy(random_prompt(9, 2), 5)});
    for (const Outcome& o : out) {
      ASSERT_TRUE(o.error);
      EXPECT_THAT(o.error->what(), ::testing::StartsWith("inference backend error: "));
    }
    engine->check();
    broken = false;  // a step that goes well starts the count of failures anew
    EXPECT_EQ(run_one(*engine, request).ids, expected_ids(*model, request));
  }
  EXPECT_THAT(engine->stats().find("state")->as_string(), "running");
}

TEST(Faults, RepeatedFailuresStopTheEngineWithAClearState) {
  auto model = std::make_shared<FakeLm>();
  model->before_forward = [](const nn::Batch&) { throw std::bad_alloc(); };
  auto engine = Engine::start(model, plain_tokenizer(), test_options(1));
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    auto sink = std::make_shared<CollectSink>();
    const auto id = engine->submit(greedy(random_prompt(4, 1), 4), sink);
    if (id.ok()) sinks.push_back(sink);
  }
  for (const auto& sink : sinks) EXPECT_TRUE(sink->wait().error);
  while (engine->stats().find("state")->as_string() != "failed") {
    auto sink = std::make_shared<CollectSink>();
    if (engine->submit(greedy({1}, 4), sink).ok()) sink->wait();
  }
  const auto refused = engine->submit(greedy({1}, 4), std::make_shared<CollectSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what(), HasSubstr("failed steps in a row"));
  EXPECT_FALSE(engine->score({1, 2}).ok());
  engine->check();
}

TEST(Faults, AFullQueueRefusesAndGoesOn) {
  auto model = std::make_shared<FakeLm>();
  Gate gate;
  model->before_forward = [&](const nn::Batch&) { gate.pass(); };
  EngineOptions options = test_options(2);
  options.max_queue_depth = 3;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  std::vector<Submitted> accepted;
  for (int i = 0; i < 5; ++i) accepted.push_back(submit(*engine, greedy(random_prompt(4, 1), 2)));
  const auto refused = engine->submit(greedy({1}, 2), std::make_shared<CollectSink>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Code::ResourceExhausted);
  gate.open();
  for (const Submitted& s : accepted) EXPECT_EQ(s.sink->wait().ids.size(), 2U);
  EXPECT_EQ(run_one(*engine, greedy({1}, 2)).ids.size(), 2U);
}

TEST(Faults, CancelInEveryState) {
  auto model = std::make_shared<FakeLm>();
  Gate gate;
  model->before_forward = [&](const nn::Batch&) { gate.pass(); };
  EngineOptions options = test_options(2);
  options.prefill_chunk_tokens = 4;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  const Submitted prefilling = submit(*engine, greedy(random_prompt(40, 1), 5));
  const Submitted decoding = submit(*engine, greedy(random_prompt(3, 2), 50));
  const Submitted queued = submit(*engine, greedy(random_prompt(3, 3), 5));
  gate.wait_for_forward();
  engine->cancel(queued.id);
  gate.allow(3);
  gate.wait_for_forward();
  EXPECT_EQ(queued.sink->wait().done->reason, Finish::Cancelled);
  engine->cancel(prefilling.id);
  gate.allow(6);
  decoding.sink->wait_tokens(3);
  gate.wait_for_forward();
  EXPECT_EQ(prefilling.sink->wait().ids.size(), 0U);
  engine->cancel(decoding.id);  // while its next forward runs
  gate.open();
  const Outcome out = decoding.sink->wait();
  EXPECT_EQ(out.done->reason, Finish::Cancelled);
  EXPECT_EQ(out.done->num_generated, static_cast<int32_t>(out.ids.size()));
  engine->cancel(decoding.id);  // after the end
  engine->check();
  EXPECT_EQ(counter(*engine, "counters", "cancelled"), 3);
}

TEST(Faults, TheWatchdogDoesNotWaitForAStuckForward) {
  auto model = std::make_shared<FakeLm>();
  Gate gate;
  model->before_forward = [&](const nn::Batch&) { gate.pass(); };
  EngineOptions options = test_options(2);
  options.decode_timeout_s = 0.1;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  const Submitted stuck = submit(*engine, greedy(random_prompt(4, 1), 5));
  const Outcome out = stuck.sink->wait();  // the forward still runs
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->code(), Code::Deadline);
  gate.open();
  EXPECT_EQ(run_one(*engine, greedy({1}, 5)).ids.size(), 5U);
  engine->check();
  EXPECT_EQ(counter(*engine, "counters", "deadlines"), 1);
}

TEST(Faults, AStarvedRowMeetsTheWatchdog) {
  auto model = std::make_shared<FakeLm>();
  model->before_forward = [](const nn::Batch&) { std::this_thread::sleep_for(milliseconds(2)); };
  EngineOptions options = test_options(2);
  options.mixed_steps = false;
  options.prefill_grant_interval = 0;  // decoding rows are never interrupted
  options.decode_timeout_s = 0.1;
  auto engine = Engine::start(model, plain_tokenizer(), options);
  const Submitted running = submit(*engine, greedy(random_prompt(4, 1), -1));
  running.sink->wait_tokens(2);
  const Submitted starved = submit(*engine, greedy(random_prompt(4, 2), 3));
  const Outcome out = starved.sink->wait();
  ASSERT_TRUE(out.error);
  EXPECT_EQ(out.error->code(), Code::Deadline);
  EXPECT_FALSE(running.sink->finished());
}

TEST(Faults, MoreThanTheBudgetHoldsWaitsAndNeverAborts) {
  auto model = std::make_shared<FakeLm>();
  EngineOptions options = test_options(8);
  const KvLayout layout = make_kv_layout(model->spec().caches, 4, DType::F32);
  options.kv_budget_bytes = 20 * layout.groups[0].block_bytes;  // 80 tokens
  auto engine = Engine::start(model, plain_tokenizer(), options);
  EXPECT_LT(engine->context_tokens(), 81);
  const auto too_long =
      engine->submit(greedy(random_prompt(100, 1), 1), std::make_shared<CollectSink>());
  ASSERT_FALSE(too_long.ok());
  EXPECT_THAT(too_long.error().what(), HasSubstr("100 tokens"));
  std::vector<Request> requests;
  for (size_t i = 0; i < 30; ++i) requests.push_back(greedy(random_prompt(5 + i, i), 30));
  const auto out = run_all(*engine, requests);
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(out[i].done) << out[i].error->what();
    EXPECT_EQ(out[i].ids, expected_ids(*model, requests[i]));
  }
  engine->check();
  EXPECT_GT(counter(*engine, "counters", "admission_waits"), 0);
}

TEST(Faults, OptionsOutOfRangeAreNamed) {
  auto model = std::make_shared<FakeLm>();
  const auto message = [&](auto change) {
    EngineOptions options = test_options();
    change(options);
    try {
      Engine::start(model, nullptr, options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message([](EngineOptions& o) { o.max_batch = 0; }), HasSubstr("max batch size"));
  EXPECT_THAT(message([](EngineOptions& o) { o.admission_watermark = 0.7; }),
              HasSubstr("watermark"));
  EXPECT_THAT(message([](EngineOptions& o) { o.block_tokens = 0; }), HasSubstr("block size"));
  EXPECT_THAT(message([](EngineOptions& o) { o.kv_budget_bytes = 10; }), HasSubstr("budget"));
  EXPECT_THAT(message([](EngineOptions& o) { o.kv_type = DType::I8; }), HasSubstr("cache type"));
}

// Strict lanes: the waiting request of the highest priority goes first, whatever arrived earlier.
TEST(Faults, LanesHaveStrictPriority) {
  auto model = std::make_shared<FakeLm>();
  Gate gate;
  std::vector<int32_t> order;
  model->before_forward = [&](const nn::Batch& batch) {
    gate.pass();
    const int32_t first = batch.token_ids.host<int32_t>()[0];
    if (order.empty() || order.back() != first) order.push_back(first);
  };
  auto engine = Engine::start(model, plain_tokenizer(), test_options(1));
  std::vector<Submitted> all;
  const auto add = [&](TokenId token, Priority priority) {
    Request r = greedy({token}, 1);
    r.priority = priority;
    all.push_back(submit(*engine, r));
  };
  add(1, Priority::Normal);
  gate.wait_for_forward();
  add(2, Priority::Low);
  add(3, Priority::Normal);
  add(4, Priority::High);
  add(5, Priority::Normal);
  gate.open();
  for (const Submitted& s : all) s.sink->wait();
  EXPECT_EQ(order, (std::vector<int32_t>{1, 4, 3, 5, 2}));
}

// A sink that talks back: a finished request submits the next one from the engine thread.
class ChainSink final : public EventSink {
 public:
  ChainSink(Engine& engine, int left, std::shared_ptr<CollectSink> last)
      : engine_(engine), left_(left), last_(std::move(last)) {}
  void push(Event event) noexcept override {
    if (!std::holds_alternative<DoneEvent>(event)) return;
    std::shared_ptr<EventSink> next = last_;
    if (left_ > 0) next = std::make_shared<ChainSink>(engine_, left_ - 1, last_);
    const auto id = engine_.submit(greedy({1, 2, 3}, 2), next);
    if (id.ok() && left_ > 0) engine_.cancel(id.value() + 1000);
  }

 private:
  Engine& engine_;
  int left_;
  std::shared_ptr<CollectSink> last_;
};

TEST(Faults, SinksMaySubmitAndCancel) {
  auto engine = Engine::start(std::make_shared<FakeLm>(), plain_tokenizer(), test_options(1));
  auto last = std::make_shared<CollectSink>();
  ASSERT_TRUE(engine->submit(greedy({1}, 1), std::make_shared<ChainSink>(*engine, 20, last)).ok());
  EXPECT_EQ(last->wait().ids.size(), 2U);
}

TEST(Faults, TheTraceIsReadable) {
  const mlxcel::testing::TempDir dir;
  EngineOptions options = test_options(2);
  options.trace_path = dir.file("trace.json");
  {
    auto engine = Engine::start(std::make_shared<FakeLm>(), plain_tokenizer(), options);
    run_all(*engine, {greedy({1, 2}, 4), greedy({3}, 4), greedy({4}, 4)});
  }
  std::ifstream file(options.trace_path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Json trace = Json::parse(text).value();
  std::map<std::string, int> names;
  for (const Json& e : trace.find("traceEvents")->as_array()) ++names[e.find("name")->as_string()];
  EXPECT_EQ(names["submit"], 3);
  EXPECT_EQ(names["admit"], 3);
  EXPECT_EQ(names["done"], 3);
  EXPECT_GE(names["decode"], 3);
  EXPECT_GE(names["prefill"], 1);
}

// 10,000 random submissions, steps and cancellations against a pool that is always short.
TEST(Faults, RandomOperationsLeakNothing) {
  const std::pair<FakeConfig, int> runs[] = {
      {FakeConfig{}, 10000}, {windowed_config(6), 2000}, {hybrid_config(), 2000}};
  for (const auto& [config, num_operations] : runs) {
    auto model = std::make_shared<FakeLm>(config);
    EngineOptions options = test_options(5);
    options.max_queue_depth = 20;
    options.context_tokens = 60;
    options.preemption = true;
    options.prefix_cache_max_entries = 10;
    const KvLayout layout = make_kv_layout(model->spec().caches, 4, DType::F32);
    options.kv_budget_bytes = 2 * layout.sequence_bytes(60, 60);
    auto engine = Engine::start(model, plain_tokenizer(), options);
    std::mt19937_64 random(5);
    std::vector<Request> kinds;
    for (size_t i = 0; i < 40; ++i) {
      auto prompt = random_prompt(1 + random() % 20, i % 4);  // four beginnings
      kinds.push_back(i % 2 == 0 ? greedy(prompt, static_cast<int32_t>(random() % 25))
                                 : seeded(prompt, static_cast<int32_t>(random() % 25), i));
      kinds.back().priority = static_cast<Priority>(random() % 3);
    }
    std::vector<std::vector<TokenId>> expected;
    for (const Request& r : kinds) expected.push_back(expected_ids(*model, r));
    struct Open {
      Submitted s;
      size_t kind;
    };
    std::vector<Open> open;
    int cancelled = 0;
    int refused = 0;
    const auto close = [&](size_t i) {
      const Outcome out = open[i].s.sink->wait();
      ASSERT_EQ(out.final_events, 1);
      ASSERT_TRUE(out.done) << out.error->what();
      auto wanted = expected[open[i].kind];
      if (out.done->reason == Finish::Cancelled) {
        ++cancelled;
        wanted.resize(out.ids.size());
      }
      ASSERT_EQ(out.ids, wanted);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    };
    for (int step = 0; step < num_operations; ++step) {
      const auto op = random() % 8;
      if (op < 3) {
        Open o{.s = {}, .kind = random() % kinds.size()};
        const auto id = engine->submit(kinds[o.kind], o.s.sink);
        if (id.ok()) {
          o.s.id = id.value();
          open.push_back(std::move(o));
        } else {
          ASSERT_EQ(id.error().code(), Code::ResourceExhausted);
          ++refused;
        }
      } else if (open.empty()) {
        continue;
      } else if (op == 3) {
        engine->cancel(open[random() % open.size()].s.id);
      } else if (op == 4) {
        ASSERT_NO_FATAL_FAILURE(close(random() % open.size()));
      } else {
        for (size_t i = open.size(); i-- > 0;) {
          if (!open[i].s.sink->finished()) continue;
          ASSERT_NO_FATAL_FAILURE(close(i));
        }
      }
      if (step % 500 == 0) engine->check();
    }
    while (!open.empty()) ASSERT_NO_FATAL_FAILURE(close(0));
    EXPECT_GT(cancelled, 10);
    engine->check();
    engine->reset_prefix_cache();
    engine->check();
    EXPECT_EQ(counter(*engine, "gauges", "kv_live_bytes"), 0);
    EXPECT_EQ(counter(*engine, "gauges", "blocks_used"), 0);
    EXPECT_GT(counter(*engine, "counters", "preemptions_batch"), 0);
  }
}

}  // namespace
}  // namespace mlxcel::engine::testing
