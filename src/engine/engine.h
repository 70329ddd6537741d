// One model, one thread, many sequences: the only place that runs a forward. CLI, chat and server
// are its clients.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "engine/loop_detector.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "nn/causal_lm.h"
#include "text/grammar/constraint.h"
#include "text/tokenizer.h"

namespace mlxcel::engine {

/// What a client wants. Immutable after submit.
struct Request {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  int32_t max_tokens = -1;        // -1 = until the context is full
  std::vector<TokenId> stop_ids;  // end-of-text ids; they are not part of the text
  std::vector<std::string>
      stop_strings;              // earliest match in the decoded text ends it; the match is cut
  LoopDetection loop_detection;  // ends an answer that repeats itself, with Finish::Stop
  std::shared_ptr<const text::Grammar> grammar;  // what the answer must be; null = free text
  text::ConstraintOptions constraint;            // where the grammar begins
  bool jump_ahead = true;  // text that the grammar fixes is taken over without a forward for each
                           // token; off when log-probabilities are asked for
  Priority priority = Priority::Normal;
  bool use_prefix_cache = true;
  std::string cache_scope;  // template, adapter and session facts: sequences of different scopes
                            // never share a prefix
  bool skip_special_text = true;  // special tokens add no text
  bool continues_text = false;    // the text goes on from the prompt: its first token keeps the
                                  // space that decoders drop at the beginning of a text
  bool report_progress = false;   // ProgressEvents before the first token
};

enum class Finish : uint8_t { Stop, Length, Cancelled };
struct TokenEvent {
  TokenId id = 0;
  std::string text;  // whole characters released by this token; may be empty
  float logprob = 0.0F;
  std::vector<std::pair<TokenId, float>> top;
};
struct DoneEvent {
  Finish reason = Finish::Stop;
  std::string text;          // released at the end: held-back text and broken bytes as U+FFFD
  std::string matched_stop;  // empty unless a stop string ended it
  int32_t num_cached = 0, num_prompt = 0, num_generated = 0;
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
};
/// How far the prompt is: once when the request is admitted (num_processed == num_cached), then
/// after each piece.
struct ProgressEvent {
  int32_t num_prompt = 0, num_cached = 0, num_processed = 0;
  double queue_ms = 0, prefill_ms = 0;  // waited; since admission
};
/// Progress where asked for, tokens, then exactly one Done or Error.
using Event = std::variant<TokenEvent, DoneEvent, Error, ProgressEvent>;

/// A token of a given text.
struct ScoredToken {
  TokenId id = 0;
  float logprob = 0.0F;
  std::vector<std::pair<TokenId, float>> top;  // log-probabilities, descending
};

/// Receives events on the engine thread. Must not block and must not throw; it may call submit()
/// and cancel(), but not score(), check() or the destructor of the engine.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void push(Event event) noexcept = 0;
};

struct EngineOptions {
  int32_t max_batch = 4, max_queue_depth = 32;
  int32_t context_tokens = 0;  // per sequence; 0 = the model's own
  std::optional<int32_t>
      prefill_chunk_tokens;  // unset: 2048 idle, 512 while decoding; 0 = one piece
  int32_t prefill_grant_interval = 16;
  int32_t max_batch_prefill = 4, max_batch_prefill_tokens = 4096;
  bool mixed_steps = true, batching = true;
  bool preemption = false;
  PreemptionPolicy preemption_policy = PreemptionPolicy::LongestFirst;
  DType kv_type = DType::F16;
  int32_t block_tokens = 32;
  std::optional<int64_t> kv_budget_bytes;  // unset = auto (from free memory); 0 = unbounded
  double admission_watermark = 0.01;
  bool dense_kv = false;  // one run of contiguous blocks per sequence
  /// --max-kv-size: layers of full attention keep and see only that many last positions; 0 = off.
  int32_t max_kv_tokens = 0;
  bool prefix_cache = true;
  int64_t prefix_cache_bytes = int64_t{2} << 30;
  int32_t prefix_cache_max_entries = 1024, prefix_cache_min_tokens = 32;
  double prefix_cache_ttl_s = 3600;
  bool prefix_hash_blake3 = false;
  int64_t prefix_snapshot_bytes = int64_t{512} << 20;  // state copies of recurrent models
  int32_t prefix_snapshot_max_entries = 4096;
  double prefix_snapshot_ttl_s = 7200;
  double decode_timeout_s = 600;
  /// Generated tokens after which unused host memory goes back to the system; 0 = never.
  /// MLXCEL_CACHE_CLEAR_INTERVAL replaces it.
  int64_t cache_clear_interval = 256;
  std::string trace_path;  // chrome-trace of scheduler decisions, written at the end
};

using RequestId = uint64_t;

/// Everything but the destructor may be called from any thread.
class Engine {
 public:
  /// Takes the cache's address space and starts the thread. `tokenizer` may be null: events then
  /// carry ids only and stop strings are refused. Throws InvalidArgument naming an option out of
  /// range, ResourceExhausted when the cache does not fit. MLXCEL_FORCE_SYNC (present) runs
  /// forwards on the engine thread and delivers each token before the next forward.
  static std::unique_ptr<Engine> start(std::shared_ptr<const nn::CausalLm> model,
                                       std::shared_ptr<const text::Tokenizer> tokenizer,
                                       EngineOptions options);
  ~Engine();  // cancels what is running and joins the thread

  /// Queues a request. ResourceExhausted when the queue is full; InvalidArgument for an empty
  /// prompt, an id outside the vocabulary or a prompt that does not fit the context (both lengths
  /// named). `sink` is kept until the final event.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  void cancel(RequestId id) noexcept;  // idempotent; the sink still gets its final event
  /// Makes a running request's next tokens these instead of sampled ones, as soon as its step in
  /// flight is through. Does nothing once it has ended.
  void force(RequestId id, std::vector<TokenId> tokens);
  /// Logits [n, V] of every position of `tokens` in one sequence, for perplexity and tests. Blocks.
  Result<Tensor> score(std::vector<TokenId> tokens, int32_t chunk_tokens = 0);
  /// Log-probability of each token of a text after those before it (of the first one: 0), with the
  /// `num_top` best at its place. Blocks. ResourceExhausted when the logits would take over 2 GiB.
  Result<std::vector<ScoredToken>> score_tokens(std::vector<TokenId> tokens, int32_t num_top);
  /// Tokens one sequence may have, prompt included: the option, the model's own maximum, the
  /// --max-kv-size cap or what the cache budget holds, whichever is least.
  int32_t context_tokens() const;
  /// Counters and histograms as a JSON object (queue time, TTFT, ITL, batch size, cache hits,
  /// blocks).
  Json stats() const;
  void reset_prefix_cache();
  /// Checks the block accounting; throws Internal when something leaked. Only while idle.
  void check() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Engine(std::unique_ptr<Impl> impl);
};

}  // namespace mlxcel::engine
