#include "apps/turn.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>

#include "apps/interrupt.h"
#include "base/env.h"
#include "base/error.h"

namespace mlxcel::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Hands events from the engine's thread to this one.
class EventQueue final : public engine::EventSink {
 public:
  void push(engine::Event event) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    ready_.notify_one();
  }
  /// The next event, or nothing after a short while.
  std::optional<engine::Event> pop() {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, std::chrono::milliseconds(50),
                         [this] { return !events_.empty(); })) {
      return std::nullopt;
    }
    engine::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<engine::Event> events_;
};

/// Prints the two channels of an answer: content as it is, reasoning dimmed where it is shown.
class AnswerPrinter {
 public:
  AnswerPrinter(bool show_reasoning, text::ReasoningParser* parser)
      : show_reasoning_(show_reasoning), styled_(::isatty(STDOUT_FILENO) == 1), parser_(parser) {}
  void push(const std::string& text) {
    if (text.empty()) return;
    if (parser_ != nullptr) {
      print(parser_->push(text));
    } else {
      print({.reasoning = {}, .content = text});
    }
  }
  void finish() {
    if (parser_ != nullptr) print(parser_->finish());
    style(false);
    std::fflush(stdout);
  }
  const std::string& content() const { return content_; }
  bool saw_reasoning() const { return saw_reasoning_; }

 private:
  void print(const text::ReasoningDelta& delta) {
    if (!delta.reasoning.empty()) {
      saw_reasoning_ = true;
      if (show_reasoning_) {
        style(true);
        put(delta.reasoning);
        reasoning_open_ = true;
      }
    }
    if (!delta.content.empty()) {
      style(false);
      if (reasoning_open_) put("\n\n");
      reasoning_open_ = false;
      put(delta.content);
      content_ += delta.content;
    }
    std::fflush(stdout);
  }
  void style(bool dim) {
    if (styled_ && dim != dim_) std::fputs(dim ? "\x1b[2m" : "\x1b[0m", stdout);
    dim_ = dim;
  }
  static void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

  bool show_reasoning_, styled_;
  bool dim_ = false, reasoning_open_ = false, saw_reasoning_ = false;
  text::ReasoningParser* parser_;  // may be null
  std::string content_;
};

void print_ids(const char* label, const std::vector<text::TokenId>& ids) {
  std::string list;
  for (const text::TokenId id : ids) list += fmt::format("{}{}", list.empty() ? "" : ", ", id);
  fmt::print(stderr, "[{} ids ({}): {}]\n", label, ids.size(), list);
}

/// Where the time to the first token went. Sampling is part of eval.
void print_ttft(const TurnResult& result, const TurnOptions& options) {
  const engine::DoneEvent& d = result.done;
  const double post = std::max(0.0, result.first_token_seconds * 1e3 - d.queue_ms - d.prefill_ms);
  fmt::print(stderr, "[TTFT] setup={:.1f}ms build={:.1f}ms sample=0 eval={:.1f}ms post={:.1f}ms\n",
             options.prepare_seconds * 1e3, d.queue_ms, d.prefill_ms, post);
}

}  // namespace

TurnResult run_turn(engine::Engine& engine, engine::Request request, TurnOptions options) {
  const bool show_ids = env::get_bool("MLXCEL_PRINT_TOKEN_IDS").value_or(false);
  if (show_ids) print_ids("prompt", request.prompt);
  const auto events = std::make_shared<EventQueue>();
  AnswerPrinter printer(options.show_reasoning, options.parser.get());
  TurnResult result;
  const auto start = Clock::now();
  const Result<engine::RequestId> id = engine.submit(std::move(request), events);
  if (!id.ok()) throw id.error();
  std::optional<Error> failure;
  for (bool finished = false; !finished;) {
    std::optional<engine::Event> event = events->pop();
    if (interrupt_pending() && !result.interrupted) {
      result.interrupted = true;
      engine.cancel(id.value());
    }
    if (!event) continue;
    if (auto* token = std::get_if<engine::TokenEvent>(&*event)) {
      if (result.ids.empty()) result.first_token_seconds = seconds_since(start);
      result.ids.push_back(token->id);
      if (!result.interrupted) printer.push(token->text);
      continue;
    }
    finished = true;
    if (auto* done = std::get_if<engine::DoneEvent>(&*event)) {
      result.seconds = seconds_since(start);
      if (!result.interrupted) printer.push(done->text);
      result.done = std::move(*done);
    } else {
      failure = std::get<Error>(std::move(*event));
    }
  }
  printer.finish();
  if (failure && !result.interrupted) throw *failure;
  result.content = printer.content();
  if (show_ids) print_ids("token", result.ids);
  if (!options.show_reasoning && printer.saw_reasoning() && result.content.empty() &&
      !result.interrupted) {
    fmt::print(
        "[All {} generated tokens went to the reasoning channel; the content channel is "
        "empty. Re-run with --show-reasoning to see them.]",
        result.done.num_generated);
  }
  if (env::present("MLXCEL_PROFILE_TTFT")) print_ttft(result, options);
  return result;
}

std::string summary_line(const TurnResult& result) {
  const int32_t n = result.done.num_generated;
  return fmt::format("[Generated {} tokens in {:.2f}s = {:.2f} tok/s]", n, result.seconds,
                     result.seconds > 0 ? n / result.seconds : 0.0);
}

std::string profile_block(const TurnResult& result) {
  const engine::DoneEvent& d = result.done;
  // The first token comes out of the prefill; an end-of-text token takes a step and is not counted.
  const bool ended_by_id = d.reason == engine::Finish::Stop && d.matched_stop.empty();
  const int32_t decode_steps = std::max(0, d.num_generated - (ended_by_id ? 0 : 1));
  const auto rate = [](int32_t tokens, double ms) {
    return ms > 0 ? static_cast<double>(tokens) * 1000.0 / ms : 0.0;
  };
  return fmt::format(
      "[Profile Results]\nPrompt tokens: {}\nGenerated tokens: {}\nPrefill: {:.1f} ms ({:.1f} "
      "tok/s)\nDecode: {:.1f} ms ({:.1f} tok/s)\n",
      d.num_prompt, d.num_generated, d.prefill_ms, rate(d.num_prompt - d.num_cached, d.prefill_ms),
      d.decode_ms, rate(decode_steps, d.decode_ms));
}

}  // namespace mlxcel::apps
