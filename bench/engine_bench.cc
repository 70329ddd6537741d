// What the engine adds to a model: throughput of a batch against one sequence, a second turn
// against a cold prompt, the rhythm of a stream beside a long prefill, and the host time of a step.
// Ratios come from one run, so that they hold on a busy machine.
//
//   MLXCEL_BENCH_MODEL=<checkpoint> engine_bench [host|throughput|turn|rhythm]
//
// Without a model only the host time is measured. Prints one markdown row a measurement.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>

#include "backend/register.h"
#include "base/env.h"
#include "engine/engine.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "ops/ops.h"

namespace mlxcel::engine {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

// Records when tokens came.
class TimingSink final : public EventSink {
 public:
  void push(Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      ids_.push_back(token->id);
      times_.push_back(Clock::now());
    } else {
      if (auto* error = std::get_if<Error>(&event)) fmt::print("error: {}\n", error->what());
      ended_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  void wait_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || times_.size() >= n; });
  }
  std::vector<Clock::time_point> times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::vector<TokenId> ids() {
    const std::lock_guard lock(mutex_);
    return ids_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> ids_;
  std::vector<Clock::time_point> times_;
  bool ended_ = false;
};

std::vector<TokenId> random_prompt(size_t length, uint64_t seed, int64_t vocab) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> out(length);
  for (TokenId& id : out) id = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab));
  return out;
}

Request request(std::vector<TokenId> prompt, int32_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  return r;
}

std::shared_ptr<TimingSink> submit(Engine& engine, Request r) {
  auto sink = std::make_shared<TimingSink>();
  engine.submit(std::move(r), sink).value();
  return sink;
}

double number(const Engine& engine, const char* group, const char* name) {
  return engine.stats().find(group)->find(name)->as_double();
}

void row(const char* what, const std::string& value, const std::string& target, bool met) {
  fmt::print("| {} | {} | {} | {} |\n", what, value, target, met ? "met" : "MISSED");
  std::fflush(stdout);
}

// A model without arithmetic: what remains of a step is the engine's own time.
class NoModel final : public nn::CausalLm {
 public:
  NoModel() {
    spec_.vocab_size = 64;
    spec_.hidden_size = 1;
    spec_.max_positions = 1 << 20;
    spec_.caches = {nn::CacheSpec::full(1, 1)};
  }
  const nn::ModelSpec& spec() const override { return spec_; }
  Tensor forward(const nn::Batch& batch) const override {
    return Tensor::zeros({batch.logit_rows.numel(), spec_.vocab_size}, DType::F32);
  }
  int64_t weight_bytes() const override { return 0; }

 private:
  nn::ModelSpec spec_;
};

void host_time() {
  EngineOptions options;
  options.max_batch = 64;
  options.max_queue_depth = 64;
  auto engine = Engine::start(std::make_shared<NoModel>(), nullptr, options);
  std::vector<std::shared_ptr<TimingSink>> sinks;
  for (uint64_t i = 0; i < 64; ++i) {
    sinks.push_back(submit(*engine, request(random_prompt(8, i, 64), 4000)));
  }
  sinks[0]->wait_tokens(100);
  const double steps_before = number(*engine, "counters", "steps");
  const double host_before = number(*engine, "counters", "host_ms");
  sinks[0]->wait_tokens(3500);
  const double steps = number(*engine, "counters", "steps") - steps_before;
  const double host_us = (number(*engine, "counters", "host_ms") - host_before) * 1e3 / steps;
  row("host time per step, 64 rows, no model", fmt::format("{:.1f} us", host_us), "<= 50 us",
      host_us <= 50);
}

void throughput(const std::shared_ptr<const nn::CausalLm>& model) {
  EngineOptions options;
  options.max_batch = 8;
  options.prefix_cache = false;
  auto engine = Engine::start(model, nullptr, options);
  const int64_t vocab = model->spec().vocab_size;
  constexpr int32_t kTokens = 96;
  // Tokens a second between the moment when all rows decode and the moment when the first is done.
  const auto rate = [&](size_t count) {
    std::vector<std::shared_ptr<TimingSink>> sinks;
    for (size_t i = 0; i < count; ++i) {
      sinks.push_back(submit(*engine, request(random_prompt(32, i, vocab), kTokens)));
    }
    Clock::time_point begin{};
    auto end = Clock::time_point::max();
    for (const auto& s : sinks) s->wait();
    for (const auto& s : sinks) {
      begin = std::max(begin, s->times().front());
      end = std::min(end, s->times().back());
    }
    size_t tokens = 0;
    for (const auto& s : sinks) {
      for (const auto t : s->times()) tokens += t > begin && t <= end ? 1 : 0;
    }
    return static_cast<double>(tokens) / ms_between(begin, end) * 1e3;
  };
  rate(1);  // warms up
  std::vector<double> ratios;
  double one = 0;
  double eight = 0;
  for (int round = 0; round < 3; ++round) {
    one = rate(1);
    eight = rate(8);
    ratios.push_back(eight / one);
  }
  std::ranges::sort(ratios);
  row("decode, 8 sequences against 1",
      fmt::format("{:.2f}x (median of 3; last {:.1f} and {:.1f} tok/s)", ratios[1], eight, one),
      ">= 3.5x", ratios[1] >= 3.5);
}

void second_turn(const std::shared_ptr<const nn::CausalLm>& model) {
  auto engine = Engine::start(model, nullptr, EngineOptions{});
  const int64_t vocab = model->spec().vocab_size;
  const auto first_token_ms = [&](const std::shared_ptr<TimingSink>& sink, Clock::time_point t) {
    sink->wait();
    return ms_between(t, sink->times().front());
  };
  Request first = request(random_prompt(2000, 1, vocab), 16);
  auto start = Clock::now();
  const auto cold = submit(*engine, first);
  const double cold_ms = first_token_ms(cold, start);
  Request second = first;
  const auto answer = cold->ids();
  second.prompt.insert(second.prompt.end(), answer.begin(), answer.end());
  const auto question = random_prompt(24, 2, vocab);
  second.prompt.insert(second.prompt.end(), question.begin(), question.end());
  start = Clock::now();
  const double warm_ms = first_token_ms(submit(*engine, second), start);
  row("second turn (24 new tokens) after 2,000",
      fmt::format("{:.1f} % ({:.0f} of {:.0f} ms)", warm_ms / cold_ms * 100, warm_ms, cold_ms),
      "<= 5 %", warm_ms <= cold_ms * 0.05);
}

void rhythm(const std::shared_ptr<const nn::CausalLm>& model) {
  const int64_t vocab = model->spec().vocab_size;
  EngineOptions options;
  options.prefix_cache = false;
  options.prefill_chunk_tokens = 512;
  // The last 512-token piece of the prompt alone: attention makes it the slowest.
  auto alone = Engine::start(model, nullptr, options);
  const auto first_token = [&](size_t length) {
    const auto t = Clock::now();
    const auto sink = submit(*alone, request(random_prompt(length, 3, vocab), 1));
    sink->wait();
    return ms_between(t, sink->times().front());
  };
  first_token(64);
  const double piece_ms = first_token(4000) - first_token(4000 - 512);
  alone.reset();

  options.prefill_chunk_tokens.reset();
  auto engine = Engine::start(model, nullptr, options);
  const auto stream = submit(*engine, request(random_prompt(32, 1, vocab), 2000));
  stream->wait_tokens(30);
  const auto quiet = stream->times();
  const double step_ms = ms_between(quiet[4], quiet[29]) / 25;
  const auto begin = Clock::now();
  const auto prompt = submit(*engine, request(random_prompt(4000, 2, vocab), 1));
  prompt->wait();
  const auto end = Clock::now();
  const auto times = stream->times();
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i] > begin && times[i] <= end) gaps.push_back(ms_between(times[i - 1], times[i]));
  }
  std::ranges::sort(gaps);
  const double limit = piece_ms + step_ms;
  row("inter-token time beside a 4,000-token prefill",
      fmt::format("median {:.0f}, max {:.0f} ms", gaps[gaps.size() / 2], gaps.back()),
      fmt::format("<= {:.0f} + {:.0f} ms", piece_ms, step_ms), gaps.back() <= limit);
}

// `only` names one measurement; empty runs all.
int run(std::string_view only) {
  const auto wanted = [&](std::string_view name) { return only.empty() || only == name; };
  backend::register_all();
  fmt::print("kernels: {}\n\n| measurement | value | target | |\n|---|---|---|---|\n",
             ops::cpu_isa());
  if (wanted("host")) host_time();
  const auto path = env::get("MLXCEL_BENCH_MODEL");
  if (!path) {
    fmt::print("\nset MLXCEL_BENCH_MODEL to a checkpoint for the other measurements\n");
    return 0;
  }
  const std::shared_ptr<const nn::CausalLm> model = models::load(io::open_checkpoint(*path)).lm;
  if (wanted("throughput")) throughput(model);
  if (wanted("turn")) second_turn(model);
  if (wanted("rhythm")) rhythm(model);
  return 0;
}

}  // namespace
}  // namespace mlxcel::engine

int main(int argc, char** argv) {
  try {
    return mlxcel::engine::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    fmt::print(stderr, "engine_bench: {}\n", e.what());
    return 1;
  }
}
