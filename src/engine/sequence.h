// A request being worked on. Only the engine thread touches it.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/stop_matcher.h"

namespace mlxcel::engine {

using Clock = std::chrono::steady_clock;

struct Sequence {
  enum class State : uint8_t { Queued, Prefill, Decode, Done };

  RequestId id = 0;
  Request request;
  std::shared_ptr<EventSink> sink;
  State state = State::Queued;

  std::deque<TokenId> forced;   // come next, whatever is sampled
  std::vector<TokenId> tokens;  // prompt, then sampled; cache.num_tokens of them are computed
  int32_t num_prompt = 0;
  int32_t limit_tokens = 0;  // the sequence ends when it has this many
  int32_t num_generated = 0;
  int32_t num_cached = 0;  // prompt tokens that the first admission found in the prefix cache
  CacheAllocation cache;

  SamplerContext sampler_context;
  SamplerState sampler;
  std::optional<text::Detokenizer> detokenizer;  // nothing without a tokenizer
  StopMatcher stops{{}};

  std::unique_ptr<text::Constraint> constraint;  // null = free text
  std::vector<uint32_t> mask;                    // of the next token, while mask_ready
  bool mask_ready = false;
  std::optional<Error> mask_error;

  Clock::time_point submitted{}, admitted{}, first_token{}, last_token{}, last_progress{};
  bool was_admitted = false;
  bool ended = false;   // the sink has its final event
  bool spoilt = false;  // a failed step may have left anything in its blocks

  int32_t num_remaining() const { return static_cast<int32_t>(tokens.size()) - cache.num_tokens; }
};

using SequencePtr = std::shared_ptr<Sequence>;  // rows, queue and pending events hold it in turn

}  // namespace mlxcel::engine
