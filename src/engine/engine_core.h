// The engine thread's side of an Engine: queues, rows and the tick that turns a scheduling decision
// into one forward. Everything but the constructor runs on the engine thread.
#pragma once

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "engine/inbox.h"
#include "engine/prefix_cache.h"
#include "engine/request_queue.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/stats.h"
#include "engine/trace.h"

namespace mlxcel::engine {

/// Options after defaults, the model and the memory of the machine have been looked at.
struct ResolvedOptions {
  EngineOptions options;
  SchedulerPolicy policy;
  KvLayout layout;
  int32_t context_tokens = 0;  // of one sequence
  int32_t step_tokens = 0;     // longest prompt piece
  int64_t budget_bytes = 0;
  Device device{};  // the model's
  bool force_sync = false;
};

/// Throws InvalidArgument naming the option and its range.
ResolvedOptions resolve_options(const nn::CausalLm& model, const EngineOptions& options);

class EngineCore {
 public:
  EngineCore(std::shared_ptr<const nn::CausalLm> model, ResolvedOptions resolved);

  Inbox& inbox() { return inbox_; }
  EngineStats& stats() { return stats_; }
  const EngineStats& stats() const { return stats_; }
  const ResolvedOptions& resolved() const { return resolved_; }

  /// The engine thread: returns after Inbox::stop().
  void run();

  // Jobs, posted by Engine.
  void start_score(std::vector<TokenId> tokens, int32_t chunk_tokens,
                   std::promise<Result<Tensor>> promise);
  void force_tokens(RequestId id, const std::vector<TokenId>& tokens);
  void reset_prefix_cache();
  void check() const;

 private:
  struct PlannedRow {
    SequencePtr sequence;
    int32_t num_tokens = 0;
    bool was_decoding = false;
  };
  /// A sampled token whose text is not delivered yet, or the end of a sequence.
  struct Delivery {
    SequencePtr sequence;
    std::optional<SampledToken> token;
    std::optional<Finish> finish;
  };
  struct ScoreJob {
    std::vector<TokenId> tokens;
    int32_t chunk_tokens = 0;
    CacheAllocation cache;
    Tensor logits;
    std::promise<Result<Tensor>> promise;
  };

  // engine_core.cc: the tick
  void tick();
  void clear_unused_memory();
  void take_in(bool wait);
  void apply_cancels(const std::vector<RequestId>& ids);
  void expire_rows(Clock::time_point now);
  SchedulerState scheduler_state() const;
  std::vector<PlannedRow> plan(Action action);
  void run_step(Action action, const std::vector<PlannedRow>& rows, Clock::time_point begin);
  void await_forward(const std::vector<PlannedRow>& rows);
  void settle(const std::vector<PlannedRow>& rows, const StepOutput& output);
  void step_failed(const std::vector<PlannedRow>& rows, const Error& error);
  void give_up(const Error& error);
  void stop_all();
  bool has_decoding() const;
  void update_gauges();
  void record_step(Action action, const std::vector<PlannedRow>& rows, double forward_ms,
                   Clock::time_point begin);

  // engine_admission.cc: who gets a row and blocks
  void admit();
  bool admit_one(const SequencePtr& s);
  std::string prefix_scope(const Sequence& s) const;
  bool open_cache(Sequence& s);
  void preempt_for_head();
  void preempt(const SequencePtr& s);
  bool make_room(int64_t bytes, std::optional<Priority> outranked_by);
  bool reserve_for_step(const SequencePtr& s, int32_t num_tokens);
  int64_t promised_bytes() const;
  int32_t piece_tokens(const Sequence& s) const;
  std::vector<RowInfo> row_infos() const;
  int32_t boundary(const Sequence& s) const;
  void keep_boundary(Sequence& s);
  void donate(Sequence& s, bool with_tail);
  void release(Sequence& s);

  // engine_constraints.cc: grammars
  void prepare_masks(const std::vector<PlannedRow>& rows);
  bool constrain(const SequencePtr& s, TokenId id);
  void jump_ahead(const SequencePtr& s);

  // engine_output.cc: from logits to events
  std::vector<Result<SampledToken>> sample_rows(const std::vector<PlannedRow>& rows,
                                                const std::vector<size_t>& which,
                                                const StepOutput& output);
  void accept(const SequencePtr& s, Result<SampledToken> token, Clock::time_point now);
  void deliver(bool only_urgent);
  void deliver_one(Delivery& d);
  void report_progress(Sequence& s, Clock::time_point now);
  void end(Sequence& s, Finish reason);
  void fail(Sequence& s, const Error& error);
  void retire(const SequencePtr& s);
  void sweep_ended();

  // engine_score.cc
  bool score_step();
  void finish_score(Result<Tensor> result);

  ResolvedOptions resolved_;
  Inbox inbox_;
  EngineStats stats_;
  Trace trace_;
  Runner runner_;
  std::unique_ptr<PrefixCache> prefix_;  // null when switched off
  RequestQueue queue_;
  std::vector<SequencePtr> rows_;  // admitted, in order of admission
  std::vector<Delivery> deliveries_;
  std::vector<double> new_ttft_ms_, new_itl_ms_;  // of this step, for the histograms
  std::deque<ScoreJob> scores_;
  int32_t decode_ticks_since_prefill_ = 0;
  int32_t consecutive_failures_ = 0;
  int64_t tokens_since_clear_ = 0;
  bool admission_blocked_ = false;
  bool failed_ = false;
  bool stopping_ = false;
};

}  // namespace mlxcel::engine
