// From logits to events. Order inside a row: mask, sample, log-probabilities, end-of-text ids, stop
// strings, limits.
#include <fmt/core.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "engine/engine_core.h"

namespace mlxcel::engine {
namespace {

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

Result<SampledToken> sample_row(Sequence& s, std::span<float> logits) {
  if (s.mask_error) return *s.mask_error;
  try {
    const std::span<const uint32_t> mask =
        s.mask_ready ? std::span<const uint32_t>(s.mask) : std::span<const uint32_t>();
    return sample(logits, s.request.sampling, s.sampler_context, s.sampler, s.tokens, s.num_prompt,
                  mask);
  } catch (const Error& e) {
    return e;
  } catch (const std::exception& e) {
    return Error(Code::Internal, fmt::format("sampling failed: {}", e.what()));
  }
}

}  // namespace

// One token for each of rows[which[i]], in the order of `which`; a failure belongs to its row.
std::vector<Result<SampledToken>> EngineCore::sample_rows(const std::vector<PlannedRow>& rows,
                                                          const std::vector<size_t>& which,
                                                          const StepOutput& output) {
  std::vector<Result<SampledToken>> tokens(which.size(), SampledToken{});
  if (which.empty()) return tokens;
  if (!output.best.empty()) {  // the device has chosen
    for (size_t i = 0; i < which.size(); ++i) {
      const auto row = static_cast<size_t>(output.first_logits[which[i]]);
      tokens[i] = SampledToken{.id = output.best[row], .logprob = 0.0F, .top = {}};
    }
    return tokens;
  }
  Tensor logits = output.logits;
  const auto vocab = static_cast<size_t>(runner_.spec().vocab_size);
  const std::span<float> all = logits.host_mut<float>();
  // Waking another thread costs about as much as drawing from this many logits.
  const auto grain = std::max<int64_t>(1, 65536 / static_cast<int64_t>(vocab));
  ThreadPool::shared().parallel_for(
      static_cast<int64_t>(which.size()), grain, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          const auto row = static_cast<size_t>(output.first_logits[which[i]]);
          tokens[i] = sample_row(*rows[which[i]].sequence, all.subspan(row * vocab, vocab));
        }
      });
  return tokens;
}

// What is known from the id alone happens here; text follows in deliver().
void EngineCore::accept(const SequencePtr& s, Result<SampledToken> token, Clock::time_point now) {
  if (!token.ok()) {
    fail(*s, token.error());
    return;
  }
  if (!s->forced.empty()) {
    token.value().id = s->forced.front();
    s->forced.pop_front();
  }
  const TokenId id = token.value().id;
  const Request& request = s->request;
  const bool first = s->num_generated == 0;
  const bool is_stop = !request.sampling.ignore_eos && std::ranges::count(request.stop_ids, id) > 0;
  if (first) s->first_token = now;
  (first ? new_ttft_ms_ : new_itl_ms_)
      .push_back(ms_between(first ? s->submitted : s->last_token, now));
  s->last_token = now;
  Delivery delivery{.sequence = s, .token = {}, .finish = {}};
  if (is_stop) {
    delivery.finish = Finish::Stop;
  } else {
    delivery.token = std::move(token).value();
    s->tokens.push_back(id);
    ++s->num_generated;
    ++tokens_since_clear_;
    const auto generated = std::span(s->tokens).last(static_cast<size_t>(s->num_generated));
    if (static_cast<int32_t>(s->tokens.size()) >= s->limit_tokens) {
      delivery.finish = Finish::Length;
    } else if (ends_in_loop(generated, request.loop_detection)) {
      delivery.finish = Finish::Stop;
    }
  }
  if (s->constraint && !is_stop && !constrain(s, id)) return;
  if (s->constraint && s->constraint->finished()) delivery.finish = Finish::Stop;
  const bool finished = delivery.finish.has_value();
  deliveries_.push_back(std::move(delivery));
  if (!finished && s->constraint) jump_ahead(s);
  if (finished || s->state == Sequence::State::Done) {
    if (finished) retire(s);
  } else {
    s->state = Sequence::State::Decode;
  }
}

// Turns accepted tokens into events. Rows wait for the next forward to overlap with, except those
// whose text can end them while their state cannot be unwound by one token.
void EngineCore::deliver(bool only_urgent) {
  if (deliveries_.empty()) return;
  const bool recurrent = runner_.cache().layout().recurrent;
  std::vector<Delivery> later;
  std::vector<Delivery> now = std::exchange(deliveries_, {});
  for (Delivery& d : now) {
    const bool urgent =
        resolved_.force_sync || (recurrent && !d.sequence->request.stop_strings.empty());
    if (only_urgent && !urgent) {
      later.push_back(std::move(d));
      continue;
    }
    try {
      deliver_one(d);
    } catch (const std::exception& e) {  // its text could not be made: this row's error alone
      if (!d.sequence->ended) fail(*d.sequence, Error(Code::Internal, e.what()));
    }
  }
  deliveries_ = std::move(later);
}

void EngineCore::deliver_one(Delivery& d) {
  Sequence& s = *d.sequence;
  if (s.ended) return;
  if (d.token) {
    TokenEvent event{
        .id = d.token->id, .text = {}, .logprob = d.token->logprob, .top = std::move(d.token->top)};
    if (s.detokenizer) event.text = s.stops.push(s.detokenizer->push(event.id));
    s.sink->push(std::move(event));
  }
  if (s.stops.matched()) {
    end(s, Finish::Stop);
  } else if (d.finish) {
    end(s, *d.finish);
  }
}

void EngineCore::report_progress(Sequence& s, Clock::time_point now) {
  if (!s.request.report_progress || s.num_generated > 0) return;
  s.sink->push(ProgressEvent{.num_prompt = s.num_prompt,
                             .num_cached = s.num_cached,
                             .num_processed = std::min(s.cache.num_tokens, s.num_prompt),
                             .queue_ms = ms_between(s.submitted, s.admitted),
                             .prefill_ms = ms_between(s.admitted, now)});
}

// The final event of a sequence that went well. Its blocks go back in sweep_ended() or retire().
void EngineCore::end(Sequence& s, Finish reason) {
  DoneEvent done{.reason = reason,
                 .text = {},
                 .matched_stop = {},
                 .num_cached = s.num_cached,
                 .num_prompt = s.num_prompt,
                 .num_generated = s.num_generated};
  if (s.detokenizer && !s.stops.matched()) {
    done.text = s.stops.push(s.detokenizer->flush());
    done.text += s.stops.flush();
  }
  if (s.stops.matched()) {
    done.matched_stop = s.stops.match();
    if (reason != Finish::Cancelled) done.reason = Finish::Stop;
  }
  const auto now = Clock::now();
  const auto started = s.was_admitted ? s.admitted : now;
  const auto first = s.num_generated > 0 ? s.first_token : now;
  done.queue_ms = ms_between(s.submitted, started);
  done.prefill_ms = ms_between(started, first);
  done.decode_ms = ms_between(first, s.num_generated > 0 ? s.last_token : first);
  s.ended = true;
  inbox_.one_finished();
  trace_.mark(done.reason == Finish::Cancelled ? "cancel" : "done", s.id, now);
  stats_.update([&](EngineStats& st) {
    Counters& c = st.counters;
    ++(done.reason == Finish::Stop     ? c.finished_stop
       : done.reason == Finish::Length ? c.finished_length
                                       : c.cancelled);
    c.prefill_ms += done.prefill_ms;
    c.decode_ms += done.decode_ms;
    c.longest_tokens = std::max<int64_t>(c.longest_tokens, std::ssize(s.tokens));
  });
  s.sink->push(std::move(done));
  s.sink.reset();
}

void EngineCore::fail(Sequence& s, const Error& error) {
  s.ended = true;
  s.spoilt = true;
  inbox_.one_finished();
  trace_.mark("error", s.id, Clock::now());
  stats_.update([&](EngineStats& st) {
    ++st.counters.errors;
    if (error.code() == Code::Deadline) ++st.counters.deadlines;
  });
  s.sink->push(error);
  s.sink.reset();
}

void EngineCore::retire(const SequencePtr& s) {
  release(*s);
  std::erase(rows_, s);
}

void EngineCore::sweep_ended() {
  for (const SequencePtr& s : rows_) {
    if (s->ended) release(*s);
  }
  std::erase_if(rows_, [](const SequencePtr& s) { return s->ended; });
}

}  // namespace mlxcel::engine
