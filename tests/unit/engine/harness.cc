#include "harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

namespace mlxcel::engine::testing {

void CollectSink::push(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  if (outcome_.final_events > 0) ++outcome_.events_after_final;
  if (auto* token = std::get_if<TokenEvent>(&event)) {
    outcome_.ids.push_back(token->id);
    outcome_.logprobs.push_back(token->logprob);
    outcome_.streamed += token->text;
    outcome_.text += token->text;
  } else if (auto* done = std::get_if<DoneEvent>(&event)) {
    outcome_.text += done->text;
    outcome_.done = std::move(*done);
    ++outcome_.final_events;
  } else if (auto* progress = std::get_if<ProgressEvent>(&event)) {
    outcome_.progress.push_back(*progress);
  } else {
    outcome_.error = std::get<Error>(event);
    ++outcome_.final_events;
  }
  changed_.notify_all();
}

Outcome CollectSink::wait() {
  std::unique_lock lock(mutex_);
  const bool ended =
      changed_.wait_for(lock, std::chrono::seconds(60), [&] { return outcome_.final_events > 0; });
  EXPECT_TRUE(ended) << "no final event within a minute";
  return outcome_;
}

void CollectSink::wait_tokens(size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
    return outcome_.ids.size() >= count || outcome_.final_events > 0;
  }));
}

size_t CollectSink::num_tokens() {
  const std::lock_guard lock(mutex_);
  return outcome_.ids.size();
}

bool CollectSink::finished() {
  const std::lock_guard lock(mutex_);
  return outcome_.final_events > 0;
}

EngineOptions test_options(int32_t batch) {
  EngineOptions o;
  o.max_batch = batch;
  o.max_queue_depth = 1000;
  o.kv_type = DType::F32;
  o.block_tokens = 4;
  o.prefix_cache_min_tokens = 1;
  o.kv_budget_bytes = int64_t{64} << 20;
  return o;
}

Request greedy(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.want_logprob = true;
  return r;
}

Request seeded(std::vector<TokenId> prompt, int32_t max_tokens, uint64_t seed) {
  Request r = greedy(std::move(prompt), max_tokens);
  r.sampling.temperature = 1.3F;
  r.sampling.top_p = 0.95F;
  r.sampling.top_k = 40;
  r.sampling.repetition_penalty = 1.1F;
  r.sampling.seed = seed;
  return r;
}

std::vector<TokenId> random_prompt(size_t length, uint64_t seed, int32_t vocab) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> out(length);
  for (TokenId& id : out) id = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab));
  return out;
}

std::vector<Outcome> run_all(Engine& engine, std::vector<Request> requests) {
  std::vector<std::shared_ptr<CollectSink>> sinks;
  for (Request& r : requests) {
    sinks.push_back(std::make_shared<CollectSink>());
    const auto id = engine.submit(std::move(r), sinks.back());
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().what());
    if (!id.ok()) return {};
  }
  std::vector<Outcome> out;
  for (const auto& sink : sinks) out.push_back(sink->wait());
  for (const Outcome& o : out) {
    EXPECT_EQ(o.final_events, 1);
    EXPECT_EQ(o.events_after_final, 0);
  }
  return out;
}

Outcome run_one(Engine& engine, Request request) {
  auto all = run_all(engine, {std::move(request)});
  return all.empty() ? Outcome{} : std::move(all[0]);
}

std::vector<TokenId> expected_ids(const FakeLm& model, const Request& request) {
  std::vector<TokenId> tokens = request.prompt;
  const auto num_prompt = static_cast<int32_t>(tokens.size());
  SamplerState state;
  init_state(request.sampling, state);
  SamplerContext context;
  context.vocab_size = static_cast<int32_t>(model.spec().vocab_size);
  for (int32_t i = 0; i < request.max_tokens; ++i) {
    std::vector<float> logits = model.reference(tokens).back();
    const TokenId id = sample(logits, request.sampling, context, state, tokens, num_prompt).id;
    if (std::ranges::count(request.stop_ids, id) > 0) break;
    tokens.push_back(id);
  }
  return {tokens.begin() + num_prompt, tokens.end()};
}

int64_t counter(const Engine& engine, const char* group, const char* name) {
  const Json stats = engine.stats();
  const Json* g = stats.find(group);
  const Json* value = g != nullptr ? g->find(name) : nullptr;
  EXPECT_NE(value, nullptr) << group << "." << name;
  return value != nullptr ? static_cast<int64_t>(value->as_double()) : -1;
}

}  // namespace mlxcel::engine::testing
