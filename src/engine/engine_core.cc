// The tick: take in what other threads asked for, decide, run one forward, settle its rows.
#include "engine/engine_core.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"

namespace mlxcel::engine {
namespace {

// Steps that fail one after the other before the engine gives up: a broken device would otherwise
// eat every request that arrives.
constexpr int32_t kMaxConsecutiveFailures = 5;
// Stands in for a decode timeout of 0, so that a starved row does not wait for ever.
constexpr double kFallbackTimeoutSeconds = 300;

Clock::duration timeout_of(const EngineOptions& options) {
  const double seconds =
      options.decode_timeout_s > 0 ? options.decode_timeout_s : kFallbackTimeoutSeconds;
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Error deadline_error(const EngineOptions& options) {
  return Error(Code::Deadline,
               fmt::format("no new token for {:g} seconds (--decode-timeout)",
                           std::chrono::duration<double>(timeout_of(options)).count()));
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<const nn::CausalLm> model, ResolvedOptions resolved)
    : resolved_(std::move(resolved)),
      inbox_(resolved_.options.max_batch + resolved_.options.max_queue_depth),
      trace_(resolved_.options.trace_path),
      runner_(std::move(model), resolved_.layout,
              {.budget_bytes = resolved_.budget_bytes,
               .num_state_rows = resolved_.options.max_batch + 1,  // one for score()
               .dense = resolved_.options.dense_kv,
               .device = resolved_.device},
              resolved_.force_sync),
      queue_(!resolved_.options.batching) {
  const EngineOptions& o = resolved_.options;
  if (o.decode_timeout_s <= 0) {
    log::warn("decode timeout 0: the built-in guard of {} seconds is used",
              kFallbackTimeoutSeconds);
  }
  if (o.prefix_cache) {
    prefix_ = std::make_unique<PrefixCache>(
        runner_.cache(), PrefixCacheOptions{.max_bytes = o.prefix_cache_bytes,
                                            .max_entries = o.prefix_cache_max_entries,
                                            .min_tokens = o.prefix_cache_min_tokens,
                                            .ttl_s = o.prefix_cache_ttl_s,
                                            .blake3 = o.prefix_hash_blake3,
                                            .snapshot_max_bytes = o.prefix_snapshot_bytes,
                                            .snapshot_max_entries = o.prefix_snapshot_max_entries,
                                            .snapshot_ttl_s = o.prefix_snapshot_ttl_s});
  }
  update_gauges();
}

void EngineCore::run() {
  while (!stopping_) {
    try {
      tick();
    } catch (const std::exception& e) {
      // Not a step but the engine itself went wrong: nothing that runs can be trusted any more.
      log::error("the engine stops: {}", e.what());
      give_up(Error(Code::Internal, fmt::format("the engine has stopped: {}", e.what())));
    }
  }
  stop_all();
  trace_.write();
}

void EngineCore::tick() {
  take_in(false);
  if (stopping_) return;
  if (failed_) return take_in(true);
  expire_rows(Clock::now());
  if (prefix_) prefix_->expire(Clock::now());
  const bool scored = score_step();
  const auto begin = Clock::now();
  Action action = next_action(scheduler_state(), resolved_.policy);
  while (action == Action::Admit || action == Action::Preempt) {
    action == Action::Admit ? admit() : preempt_for_head();
    action = next_action(scheduler_state(), resolved_.policy);
  }
  std::vector<PlannedRow> rows;
  if (action != Action::Idle) rows = plan(action);
  if (!rows.empty()) {
    run_step(action, rows, begin);
    return clear_unused_memory();
  }
  update_gauges();
  deliver(false);
  sweep_ended();
  update_gauges();
  const bool nothing_to_do = rows_.empty() && queue_.size() == 0 && scores_.empty();
  if (nothing_to_do && !scored) take_in(true);
}

// Long prompts leave large intermediate results in the allocator; a decode step needs none of them.
void EngineCore::clear_unused_memory() {
  const int64_t interval = resolved_.options.cache_clear_interval;
  if (interval == 0 || tokens_since_clear_ < interval) return;
  tokens_since_clear_ = 0;
  Buffer::trim_host_cache();
}

void EngineCore::take_in(bool wait) {
  Inbox::Content content = inbox_.take(wait);
  for (SequencePtr& s : content.requests) {
    stats_.update([&](EngineStats& st) { ++st.counters.submitted; });
    trace_.mark("submit", s->id, s->submitted);
    if (failed_) {
      fail(*s, Error(Code::Internal, "the engine has stopped after repeated failures"));
    } else {
      queue_.push(std::move(s));
      admission_blocked_ = false;
    }
  }
  if (!content.cancels.empty()) apply_cancels(content.cancels);
  for (const auto& job : content.jobs) job();
  stopping_ = content.stop;
}

void EngineCore::apply_cancels(const std::vector<RequestId>& ids) {
  deliver(false);  // what was sampled before the cancellation belongs to the client
  for (const RequestId id : ids) {
    if (const SequencePtr s = queue_.remove(id)) {
      admission_blocked_ = false;
      if (!s->ended) end(*s, Finish::Cancelled);
      continue;
    }
    const auto row = std::ranges::find_if(rows_, [&](const SequencePtr& s) { return s->id == id; });
    if (row != rows_.end() && !(*row)->ended) end(**row, Finish::Cancelled);
  }
  sweep_ended();
}

void EngineCore::expire_rows(Clock::time_point now) {
  const auto limit = timeout_of(resolved_.options);
  const auto late = [&](const SequencePtr& s) {
    return !s->ended && now - s->last_progress > limit;
  };
  if (std::ranges::none_of(rows_, late)) return;
  deliver(false);
  for (const SequencePtr& s : rows_) {
    if (late(s)) fail(*s, deadline_error(resolved_.options));
  }
  sweep_ended();
}

SchedulerState EngineCore::scheduler_state() const {
  SchedulerState state;
  state.num_queued = queue_.size();
  state.num_free_rows = resolved_.options.max_batch - static_cast<int32_t>(rows_.size());
  state.decode_ticks_since_prefill = decode_ticks_since_prefill_;
  state.admission_blocked = admission_blocked_;
  const SequencePtr* head = queue_.head();
  for (const SequencePtr& s : rows_) {
    if (s->state == Sequence::State::Decode) ++state.num_decoding;
    if (s->state == Sequence::State::Prefill) state.prefill_parked = true;
    if (head != nullptr && s->request.priority > (*head)->request.priority) {
      state.head_outranks_a_row = true;
    }
  }
  return state;
}

// The rows of a step, with storage for their new tokens.
std::vector<EngineCore::PlannedRow> EngineCore::plan(Action action) {
  std::vector<SequencePtr> decoding;
  std::vector<SequencePtr> prefilling;
  for (const SequencePtr& s : rows_) {
    (s->state == Sequence::State::Decode ? decoding : prefilling).push_back(s);
  }
  std::vector<PlannedRow> rows;
  if (action != Action::PrefillChunk) {
    for (const SequencePtr& s : decoding) {
      // More than one where a grammar fixed the text behind the last sampled token.
      const int32_t remaining = s->num_remaining();
      if (reserve_for_step(s, remaining)) rows.push_back({s, remaining, true});
    }
  }
  if (action != Action::Decode) {
    std::vector<int32_t> remaining;
    for (const SequencePtr& s : prefilling) remaining.push_back(piece_tokens(*s));
    const auto pieces = split_chunk(remaining, chunk_tokens(resolved_.policy, !decoding.empty()));
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i] > 0 && reserve_for_step(prefilling[i], pieces[i])) {
        rows.push_back({prefilling[i], pieces[i], false});
      }
    }
  }
  // Making room for a later row may have preempted or ended an earlier one.
  std::erase_if(rows, [](const PlannedRow& r) {
    return r.sequence->state == Sequence::State::Queued || r.sequence->ended;
  });
  return rows;
}

void EngineCore::run_step(Action action, const std::vector<PlannedRow>& rows,
                          Clock::time_point begin) {
  std::vector<RowInput> inputs;
  inputs.reserve(rows.size());
  for (const PlannedRow& r : rows) {
    Sequence& s = *r.sequence;
    const bool last = s.num_remaining() == r.num_tokens;
    inputs.push_back(
        {.cache = &s.cache,
         .tokens = std::span<const TokenId>(s.tokens).subspan(
             static_cast<size_t>(s.cache.num_tokens), static_cast<size_t>(r.num_tokens)),
         .logits = last ? RowInput::Logits::Last : RowInput::Logits::None,
         .best_only = takes_the_best(s.request.sampling) && !s.constraint});
  }
  double forward_ms = 0;
  try {
    runner_.launch(inputs);
    deliver(false);  // the events of the step before, while this one runs
    prepare_masks(rows);
    await_forward(rows);
    const StepOutput output = runner_.finish();
    consecutive_failures_ = 0;
    forward_ms = output.forward_ms;
    settle(rows, output);
  } catch (const Error& e) {
    step_failed(rows, e);
  }
  update_gauges();  // before any final event of this step: its client may look at once
  deliver(true);
  sweep_ended();
  record_step(action, rows, forward_ms, begin);
}

// Waits for the forward; a row whose time is up meanwhile gets its error without waiting longer.
void EngineCore::await_forward(const std::vector<PlannedRow>& rows) {
  const auto limit = timeout_of(resolved_.options);
  while (true) {
    auto earliest = Clock::time_point::max();
    for (const PlannedRow& r : rows) {
      if (!r.sequence->ended) earliest = std::min(earliest, r.sequence->last_progress + limit);
    }
    if (earliest == Clock::time_point::max()) return;  // finish() waits
    if (runner_.wait_until(earliest)) return;
    for (const PlannedRow& r : rows) {
      if (r.sequence->ended || r.sequence->last_progress + limit > earliest) continue;
      fail(*r.sequence, deadline_error(resolved_.options));
    }
  }
}

void EngineCore::settle(const std::vector<PlannedRow>& rows, const StepOutput& output) {
  const auto now = Clock::now();
  std::vector<size_t> to_sample;
  int64_t unwound = 0;
  int64_t prompt_tokens = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence& s = *rows[i].sequence;
    if (s.ended) {  // by a stop string or the watchdog, while its next forward was running
      runner_.commit(i, 0);
      unwound += rows[i].num_tokens;
      continue;
    }
    runner_.commit(i, rows[i].num_tokens);
    s.last_progress = now;
    if (s.state == Sequence::State::Prefill) {
      prompt_tokens += rows[i].num_tokens;
      keep_boundary(s);
      report_progress(s, now);
    }
    if (s.num_remaining() > 0) continue;
    if (static_cast<int32_t>(s.tokens.size()) >= s.limit_tokens) {  // max_tokens 0
      deliveries_.push_back({.sequence = rows[i].sequence, .token = {}, .finish = Finish::Length});
      retire(rows[i].sequence);
      continue;
    }
    to_sample.push_back(i);
  }
  auto tokens = sample_rows(rows, to_sample, output);
  int64_t generated = 0;
  for (size_t i = 0; i < to_sample.size(); ++i) {
    const int32_t before = rows[to_sample[i]].sequence->num_generated;
    accept(rows[to_sample[i]].sequence, std::move(tokens[i]), now);
    generated += rows[to_sample[i]].sequence->num_generated - before;
  }
  stats_.update([&](EngineStats& st) {
    st.counters.unwound_tokens += unwound;
    st.counters.computed_prompt_tokens += prompt_tokens;
    st.counters.generated_tokens += generated;
    for (const double ms : new_ttft_ms_) st.ttft_ms.add(ms);
    for (const double ms : new_itl_ms_) st.itl_ms.add(ms);
  });
  new_ttft_ms_.clear();
  new_itl_ms_.clear();
}

void EngineCore::step_failed(const std::vector<PlannedRow>& rows, const Error& error) {
  log::error("a step of {} rows failed: {}", rows.size(), error.what());
  runner_.abandon();
  for (const PlannedRow& r : rows) {
    if (r.sequence->cache.open) runner_.cache().commit(r.sequence->cache, 0);
    r.sequence->spoilt = true;
    if (!r.sequence->ended) fail(*r.sequence, error);
  }
  stats_.update([](EngineStats& st) { ++st.counters.failed_steps; });
  if (++consecutive_failures_ >= kMaxConsecutiveFailures) {
    log::error("the engine stops after {} failed steps in a row", consecutive_failures_);
    give_up(Error(Code::Internal,
                  fmt::format("the engine has stopped after {} failed steps in a row, the last: {}",
                              consecutive_failures_, error.what())));
  }
}

// Ends everything with `error` and refuses what comes; jobs of other threads are still answered.
void EngineCore::give_up(const Error& error) {
  runner_.abandon();
  failed_ = true;
  inbox_.refuse(error);
  deliver(false);
  while (const SequencePtr s = queue_.pop()) {
    if (!s->ended) fail(*s, error);
  }
  for (const SequencePtr& s : rows_) {
    s->spoilt = true;
    if (!s->ended) fail(*s, error);
  }
  sweep_ended();
  while (!scores_.empty()) finish_score(error);
  update_gauges();
}

void EngineCore::stop_all() {
  const Error shutting_down(Code::Cancelled, "the engine is shutting down");
  deliver(false);
  Inbox::Content left = inbox_.shut();
  for (SequencePtr& s : left.requests) queue_.push(std::move(s));
  for (const auto& job : left.jobs) job();
  while (const SequencePtr s = queue_.pop()) {
    if (!s->ended) end(*s, Finish::Cancelled);
  }
  for (const SequencePtr& s : rows_) {
    if (!s->ended) end(*s, Finish::Cancelled);
  }
  sweep_ended();
  while (!scores_.empty()) finish_score(shutting_down);
  if (prefix_) prefix_->clear();
  update_gauges();
}

void EngineCore::record_step(Action action, const std::vector<PlannedRow>& rows, double forward_ms,
                             Clock::time_point begin) {
  const auto end = Clock::now();
  TraceStep step{.name = action_name(action),
                 .begin = begin,
                 .end = end,
                 .rows = static_cast<int32_t>(rows.size()),
                 .queued = queue_.size(),
                 .free_bytes = runner_.cache().free_bytes()};
  int32_t prefilling = 0;
  int32_t tokens = 0;
  for (const PlannedRow& r : rows) {
    tokens += r.num_tokens;
    if (r.was_decoding) {
      ++step.decoding;
    } else {
      ++prefilling;
      step.prefill_tokens += r.num_tokens;
    }
  }
  trace_.add(step);
  const bool parked = std::ranges::any_of(
      rows_, [](const SequencePtr& s) { return s->state == Sequence::State::Prefill; });
  decode_ticks_since_prefill_ =
      action == Action::Decode && parked ? decode_ticks_since_prefill_ + 1 : 0;
  const double total_ms = std::chrono::duration<double, std::milli>(end - begin).count();
  stats_.update([&](EngineStats& st) {
    Counters& c = st.counters;
    ++c.steps;
    if (action == Action::Decode) ++c.decode_steps;
    if (action == Action::PrefillChunk) ++c.prefill_steps;
    if (action == Action::Mixed) ++c.mixed_steps;
    if (action == Action::PrefillChunk && step.decoding == 0 && has_decoding()) ++c.prefill_grants;
    if (prefilling > 1) ++c.batch_prefill_grants;
    c.forward_ms += forward_ms;
    c.host_ms += total_ms - forward_ms;
    st.batch_rows.add(static_cast<double>(rows.size()));
    st.batch_tokens.add(tokens);
    st.step_host_us.add(std::max(0.0, total_ms - forward_ms) * 1e3);
  });
}

bool EngineCore::has_decoding() const {
  return std::ranges::any_of(
      rows_, [](const SequencePtr& s) { return s->state == Sequence::State::Decode; });
}

void EngineCore::update_gauges() {
  const KvCache& kv = runner_.cache();
  Gauges g;
  g.queued = queue_.size();
  for (const SequencePtr& s : rows_) {
    ++(s->state == Sequence::State::Decode ? g.decoding : g.prefilling);
  }
  g.kv_budget_bytes = kv.budget_bytes();
  g.kv_live_bytes = kv.live_bytes();
  g.kv_touched_bytes = kv.touched_bytes();
  g.kv_cached_bytes = prefix_ ? prefix_->bytes() : 0;
  g.blocks_cached = prefix_ ? prefix_->num_blocks() : 0;
  if (!kv.layout().groups.empty()) {
    g.blocks_used = kv.blocks(0).num_live();
    g.blocks_free = kv.free_bytes() / kv.layout().groups[0].block_bytes;
  }
  g.free_state_rows = kv.free_state_rows();
  g.failed = failed_;
  const PrefixStats prefix = prefix_ ? prefix_->stats() : PrefixStats{};
  stats_.update([&](EngineStats& st) {
    st.gauges = g;
    st.prefix = prefix;
  });
}

void EngineCore::force_tokens(RequestId id, const std::vector<TokenId>& tokens) {
  const auto row = std::ranges::find_if(rows_, [&](const SequencePtr& s) { return s->id == id; });
  const SequencePtr s = row != rows_.end() ? *row : queue_.find(id);
  if (s && !s->ended) s->forced.assign(tokens.begin(), tokens.end());
}

void EngineCore::reset_prefix_cache() {
  if (prefix_) prefix_->clear();
  admission_blocked_ = false;
  update_gauges();
}

// Every block is free, held by a sequence or held by the prefix cache, and the counts add up.
void EngineCore::check() const {
  const KvCache& kv = runner_.cache();
  std::vector<std::vector<int32_t>> holders;
  for (size_t g = 0; g < kv.layout().groups.size(); ++g) {
    holders.emplace_back(static_cast<size_t>(kv.blocks(static_cast<int32_t>(g)).num_minted()), 0);
  }
  int32_t state_rows = 0;
  const auto count = [&](const CacheAllocation& a) {
    MLXCEL_CHECK(a.num_tokens <= a.num_reserved || !a.open,
                 "a sequence computed beyond its blocks");
    for (size_t g = 0; g < a.blocks.size(); ++g) {
      for (const BlockId id : a.blocks[g]) {
        if (id != kNoBlock) ++holders[g].at(static_cast<size_t>(id));
      }
    }
    if (a.state_row >= 0) ++state_rows;
  };
  for (const SequencePtr& s : rows_) {
    MLXCEL_CHECK(!s->ended, "a finished sequence holds a row");
    count(s->cache);
  }
  for (const ScoreJob& job : scores_) count(job.cache);
  if (prefix_) {
    prefix_->for_each_block([&](int32_t g, BlockId id) {
      ++holders[static_cast<size_t>(g)].at(static_cast<size_t>(id));
    });
  }
  int64_t live = 0;
  for (size_t g = 0; g < holders.size(); ++g) {
    const BlockPool& pool = kv.blocks(static_cast<int32_t>(g));
    for (size_t id = 0; id < holders[g].size(); ++id) {
      const int32_t refs = pool.refs(static_cast<BlockId>(id));
      MLXCEL_CHECK(refs == holders[g][id],
                   fmt::format("block {} of group {}: {} references, {} holders", id, g, refs,
                               holders[g][id]));
    }
    live += int64_t{pool.num_live()} * kv.layout().groups[g].block_bytes;
  }
  MLXCEL_CHECK(live == kv.live_bytes(), "the bytes of live blocks do not add up");
  if (kv.layout().recurrent) {
    MLXCEL_CHECK(kv.free_state_rows() + state_rows == resolved_.options.max_batch + 1,
                 "a state row was lost");
  }
}

}  // namespace mlxcel::engine
