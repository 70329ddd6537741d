// Runs requests through an engine and collects what comes back.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "fake_model.h"

namespace mlxcel::engine::testing {

struct Outcome {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  std::string streamed;  // text of the token events
  std::string text;      // with what the final event released
  std::vector<ProgressEvent> progress;
  std::optional<DoneEvent> done;
  std::optional<Error> error;
  int final_events = 0;
  int events_after_final = 0;
};

class CollectSink final : public EventSink {
 public:
  void push(Event event) noexcept override;
  /// Waits for the final event (at most a minute).
  Outcome wait();
  /// Waits for `count` tokens or the final event.
  void wait_tokens(size_t count);
  size_t num_tokens();
  bool finished();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcome outcome_;
};

/// F32 cache, blocks of 4 tokens, no time limits that matter, `batch` rows.
EngineOptions test_options(int32_t batch = 4);

Request greedy(std::vector<TokenId> prompt, int32_t max_tokens);
Request seeded(std::vector<TokenId> prompt, int32_t max_tokens, uint64_t seed);
/// `length` ids below `vocab` from a seed.
std::vector<TokenId> random_prompt(size_t length, uint64_t seed, int32_t vocab = 64);

/// Submits all and waits; fails the test when one is refused.
std::vector<Outcome> run_all(Engine& engine, std::vector<Request> requests);
Outcome run_one(Engine& engine, Request request);

/// What the request must give, from the model's oracle and the sampler alone.
std::vector<TokenId> expected_ids(const FakeLm& model, const Request& request);

int64_t counter(const Engine& engine, const char* group, const char* name);

}  // namespace mlxcel::engine::testing
