#include "engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <thread>

#include "base/env.h"
#include "base/log.h"
#include "engine/engine_core.h"
#include "engine/sampler_row.h"

namespace mlxcel::engine {

struct Engine::Impl {
  Impl(std::shared_ptr<const nn::CausalLm> m, std::shared_ptr<const text::Tokenizer> t,
       ResolvedOptions resolved)
      : tokenizer(std::move(t)), spec(m->spec()), core(std::move(m), std::move(resolved)) {}

  /// Runs `job` between two steps and waits for it; on the engine thread at once.
  template <class Fn>
  void on_engine_thread(Fn&& job) {
    if (std::this_thread::get_id() == thread.get_id()) return job();
    std::packaged_task<void()> task(std::ref(job));
    std::future<void> done = task.get_future();
    if (!core.inbox().post([&task] { task(); })) {
      throw Error(Code::Cancelled, "the engine is shutting down");
    }
    done.get();
  }

  /// The vocabulary for grammars, made when the first request needs it.
  std::shared_ptr<const text::GrammarVocab> grammar_vocab(const std::vector<TokenId>& stop_ids) {
    if (tokenizer == nullptr) throw Error(Code::InvalidArgument, "a grammar needs a tokenizer");
    const std::lock_guard lock(vocab_mutex);
    if (!vocab || vocab_stop_ids != stop_ids) {
      vocab = text::make_grammar_vocab(tokenizer, stop_ids, static_cast<int32_t>(spec.vocab_size));
      vocab_stop_ids = stop_ids;
    }
    return vocab;
  }

  std::shared_ptr<const text::Tokenizer> tokenizer;  // shared with the application; may be null
  std::mutex vocab_mutex;                            // guards the two below
  std::shared_ptr<const text::GrammarVocab> vocab;
  std::vector<TokenId> vocab_stop_ids;
  const nn::ModelSpec spec;
  EngineCore core;
  std::thread thread;
};

namespace {

/// Row i of `logits` [n, V] says what follows tokens[i].
std::vector<ScoredToken> score_rows(std::span<const float> logits, std::span<const TokenId> tokens,
                                    int32_t num_top) {
  std::vector<ScoredToken> out(tokens.size());
  const size_t vocab = logits.size() / tokens.size();
  std::vector<float> weights(vocab);
  std::vector<sampling::Candidate> best;
  out[0].id = tokens[0];
  for (size_t i = 1; i < tokens.size(); ++i) {
    const std::span<const float> row = logits.subspan((i - 1) * vocab, vocab);
    const float max = sampling::checked_max(row);
    const double base =
        static_cast<double>(max) + std::log(sampling::exp_row(row, max, 1.0F, weights));
    const auto logprob = [&](float logit) {
      return static_cast<float>(static_cast<double>(logit) - base);
    };
    out[i].id = tokens[i];
    out[i].logprob = logprob(row[static_cast<size_t>(tokens[i])]);
    sampling::select_top_k(row, static_cast<size_t>(std::max(num_top, 0)), best);
    for (const sampling::Candidate& c : best) out[i].top.emplace_back(c.id, logprob(c.logit));
  }
  return out;
}

void check_prompt(std::span<const TokenId> tokens, int64_t vocab_size) {
  if (tokens.empty()) throw Error(Code::InvalidArgument, "the prompt has no tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    throw Error(Code::InvalidArgument,
                fmt::format("prompt token {} is {}: the vocabulary has ids 0 to {}", i, tokens[i],
                            vocab_size - 1));
  }
}

/// Puts the detokenizer in the middle of a text by one word of the prompt. Byte tokens are no use:
/// decoders hold them back, and they would come out with the first token of the answer.
void begin_after_prompt(Sequence& s, const text::Tokenizer& tokenizer) {
  if (!tokenizer.strips_leading_space()) return;
  const auto word = std::find_if(s.tokens.rbegin(), s.tokens.rend(), [&](TokenId id) {
    return !tokenizer.is_special(id) && !tokenizer.bytes(id).empty() &&
           !tokenizer.token(id).starts_with("<0x");
  });
  if (word != s.tokens.rend()) s.detokenizer->push(*word);
}

SequencePtr make_sequence(Request request, std::shared_ptr<EventSink> sink,
                          const text::Tokenizer* tokenizer,
                          const std::shared_ptr<const text::GrammarVocab>& vocab,
                          int64_t vocab_size, int32_t context_tokens, bool batching) {
  check_prompt(request.prompt, vocab_size);
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  if (num_prompt >= context_tokens) {
    throw Error(Code::InvalidArgument,
                fmt::format("the prompt has {} tokens, which leaves no room in the context of {} "
                            "tokens",
                            num_prompt, context_tokens));
  }
  if (request.max_tokens < -1) {
    throw Error(Code::InvalidArgument,
                fmt::format("max_tokens {}: expected -1 or more", request.max_tokens));
  }
  if (tokenizer == nullptr && !request.stop_strings.empty()) {
    throw Error(Code::InvalidArgument, "stop strings need a tokenizer");
  }
  validate(request.sampling);
  validate(request.loop_detection);
  auto s = std::make_shared<Sequence>();
  if (vocab != nullptr) {
    s->constraint = text::make_constraint(request.grammar, vocab, request.constraint);
    s->mask.resize((static_cast<size_t>(vocab->vocab_size()) + 31) / 32);
  }
  s->stops = StopMatcher(request.stop_strings);
  s->tokens = std::move(request.prompt);
  s->num_prompt = static_cast<int32_t>(num_prompt);
  s->limit_tokens = context_tokens;
  if (request.max_tokens >= 0) {
    s->limit_tokens =
        static_cast<int32_t>(std::min<int64_t>(context_tokens, num_prompt + request.max_tokens));
  }
  if (tokenizer != nullptr) {
    s->sampler_context = make_sampler_context(*tokenizer, request.sampling, request.stop_ids);
    s->detokenizer.emplace(*tokenizer, request.skip_special_text);
    if (request.continues_text) begin_after_prompt(*s, *tokenizer);
  }
  s->sampler_context.vocab_size = static_cast<int32_t>(vocab_size);
  s->sampler_context.eos_ids = request.stop_ids;
  init_state(request.sampling, s->sampler);
  if (!batching) request.priority = Priority::Normal;  // first in, first out
  s->request = std::move(request);
  s->sink = std::move(sink);
  s->submitted = Clock::now();
  s->last_progress = s->submitted;
  return s;
}

}  // namespace

std::unique_ptr<Engine> Engine::start(std::shared_ptr<const nn::CausalLm> model,
                                      std::shared_ptr<const text::Tokenizer> tokenizer,
                                      EngineOptions options) {
  MLXCEL_CHECK(model != nullptr, "an engine needs a model");
  ResolvedOptions resolved = resolve_options(*model, options);
  auto impl = std::make_unique<Impl>(std::move(model), std::move(tokenizer), std::move(resolved));
  Impl* const p = impl.get();
  p->thread = std::thread([p] { p->core.run(); });
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  impl_->core.inbox().stop();
  impl_->thread.join();
}

Result<RequestId> Engine::submit(Request request, std::shared_ptr<EventSink> sink) {
  MLXCEL_CHECK(sink != nullptr, "a request needs a sink");
  const ResolvedOptions& resolved = impl_->core.resolved();
  Result<RequestId> id = [&]() -> Result<RequestId> {
    try {
      const auto vocab = request.grammar ? impl_->grammar_vocab(request.stop_ids) : nullptr;
      return impl_->core.inbox().submit(make_sequence(
          std::move(request), std::move(sink), impl_->tokenizer.get(), vocab,
          impl_->spec.vocab_size, resolved.context_tokens, resolved.options.batching));
    } catch (const Error& e) {
      return e;
    }
  }();
  if (!id.ok()) impl_->core.stats().update([](EngineStats& st) { ++st.counters.rejected; });
  return id;
}

void Engine::cancel(RequestId id) noexcept {
  try {
    impl_->core.inbox().cancel(id);
  } catch (const std::exception& e) {
    log::error("cannot cancel request {}: {}", id, e.what());
  }
}

void Engine::force(RequestId id, std::vector<TokenId> tokens) {
  check_prompt(tokens, impl_->spec.vocab_size);
  impl_->core.inbox().post([this, id, t = std::move(tokens)] { impl_->core.force_tokens(id, t); });
}

Result<Tensor> Engine::score(std::vector<TokenId> tokens, int32_t chunk_tokens) {
  try {
    check_prompt(tokens, impl_->spec.vocab_size);
    const int32_t context = context_tokens();
    if (static_cast<int64_t>(tokens.size()) > context) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{} tokens to score do not fit the context of {} tokens",
                              tokens.size(), context));
    }
    std::promise<Result<Tensor>> promise;
    std::future<Result<Tensor>> result = promise.get_future();
    // shared_ptr: std::function must be copyable, a promise is not.
    auto shared = std::make_shared<std::promise<Result<Tensor>>>(std::move(promise));
    const bool posted =
        impl_->core.inbox().post([this, t = std::move(tokens), chunk_tokens, shared]() mutable {
          impl_->core.start_score(std::move(t), chunk_tokens, std::move(*shared));
        });
    if (!posted) return Error(Code::Cancelled, "the engine is shutting down");
    return result.get();
  } catch (const Error& e) {
    return e;
  }
}

Result<std::vector<ScoredToken>> Engine::score_tokens(std::vector<TokenId> tokens,
                                                      int32_t num_top) {
  const int64_t bytes = static_cast<int64_t>(tokens.size()) * impl_->spec.vocab_size * 4;
  if (bytes > int64_t{2} << 30) {
    return Error(Code::ResourceExhausted,
                 fmt::format("the log-probabilities of {} tokens take too much memory; score "
                             "shorter texts",
                             tokens.size()));
  }
  const Result<Tensor> logits = score(tokens);
  if (!logits.ok()) return logits.error();
  try {
    return score_rows(logits.value().host<float>(), tokens, num_top);
  } catch (const Error& e) {
    return e;
  }
}

int32_t Engine::context_tokens() const { return impl_->core.resolved().context_tokens; }

Json Engine::stats() const { return impl_->core.stats().json(); }

void Engine::reset_prefix_cache() {
  impl_->on_engine_thread([&] { impl_->core.reset_prefix_cache(); });
}

void Engine::check() const {
  impl_->on_engine_thread([&] { impl_->core.check(); });
}

}  // namespace mlxcel::engine
