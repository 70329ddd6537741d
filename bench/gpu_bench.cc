// Decoding and prefill rates of a checkpoint on the GPU through the engine, greedy, with random
// prompts: what a server does, without HTTP and text.
//
//   gpu_bench <checkpoint> [streams...]
//
// Prints one markdown row: prefill of 2,048 tokens, then decoding with each number of streams, as
// tokens a second over all streams between the moment when all of them decode and the moment when
// the first has ended.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <random>
#include <string>

#include "backend/register.h"
#include "base/env.h"
#include "engine/engine.h"
#include "io/checkpoint.h"
#include "models/family.h"
#include "tensor/device.h"

namespace mlxcel::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

class TimingSink final : public EventSink {
 public:
  void push(Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      times_.push_back(Clock::now());
      ids_.push_back(token->id);
    } else {
      if (auto* error = std::get_if<Error>(&event))
        fmt::print(stderr, "error: {}\n", error->what());
      ended_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
  }
  const std::vector<Clock::time_point>& times() const { return times_; }  // after wait()
  const std::vector<TokenId>& ids() const { return ids_; }

 private:
  std::mutex mutex_;  // guards what follows until the end
  std::condition_variable changed_;
  std::vector<Clock::time_point> times_;
  std::vector<TokenId> ids_;
  bool ended_ = false;
};

std::shared_ptr<TimingSink> submit(Engine& engine, size_t length, int32_t tokens, uint64_t seed,
                                   int64_t vocab) {
  std::mt19937_64 random(seed);
  Request r;
  r.prompt.resize(length);
  for (TokenId& id : r.prompt) id = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab));
  r.max_tokens = tokens;
  r.use_prefix_cache = false;
  auto sink = std::make_shared<TimingSink>();
  engine.submit(std::move(r), sink).value();
  return sink;
}

double decode_rate(Engine& engine, size_t streams, size_t prompt, int32_t tokens, int64_t vocab) {
  std::vector<std::shared_ptr<TimingSink>> sinks;
  for (size_t i = 0; i < streams; ++i) sinks.push_back(submit(engine, prompt, tokens, i, vocab));
  Clock::time_point begin{};
  auto end = Clock::time_point::max();
  for (const auto& s : sinks) {
    s->wait();
    if (s->times().empty()) return 0;
    begin = std::max(begin, s->times().front());
    end = std::min(end, s->times().back());
  }
  size_t count = 0;
  for (const auto& s : sinks) {
    count += static_cast<size_t>(
        std::ranges::count_if(s->times(), [&](auto t) { return t > begin && t <= end; }));
  }
  return static_cast<double>(count) / seconds(begin, end);
}

double prefill_rate(Engine& engine, size_t length, int64_t vocab) {
  std::vector<double> rates;
  for (uint64_t i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    const auto sink = submit(engine, length, 1, 100 + i, vocab);
    sink->wait();
    if (sink->times().empty()) return 0;
    rates.push_back(static_cast<double>(length) / seconds(begin, sink->times().front()));
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

int run(int argc, char** argv) {
  backend::register_all();
  DeviceRuntime* gpu = find_device(DeviceKind::Cuda);
  if (argc < 2 || gpu == nullptr) {
    fmt::print(stderr, "gpu_bench: give a checkpoint, on a machine with a GPU ({})\n",
               backend::gpu_unavailable_reason());
    return 1;
  }
  std::vector<size_t> streams;
  for (int i = 2; i < argc; ++i) streams.push_back(std::stoul(argv[i]));
  if (streams.empty()) streams = {1, 8, 64};
  const auto begin = Clock::now();
  const std::shared_ptr<const nn::CausalLm> model =
      models::load(io::open_checkpoint(argv[1]), {.kind = DeviceKind::Cuda, .index = 0}).lm;
  gpu->synchronize();
  const double load_s = seconds(begin, Clock::now());
  EngineOptions options;
  options.max_batch = static_cast<int32_t>(std::ranges::max(streams));
  options.max_queue_depth = options.max_batch;
  options.context_tokens =
      static_cast<int32_t>(env::get_int("MLXCEL_BENCH_CONTEXT").value_or(4096));
  options.prefix_cache = false;
  auto engine = Engine::start(model, nullptr, options);
  const int64_t vocab = model->spec().vocab_size;
  const auto depth = static_cast<size_t>(env::get_int("MLXCEL_BENCH_DEPTH").value_or(32));
  prefill_rate(*engine, 64, vocab);
  std::string row = fmt::format("| {} | load {:.1f} s | prefill 2048: {:.0f} |", argv[1], load_s,
                                prefill_rate(*engine, 2048, vocab));
  for (const size_t n : streams) {
    decode_rate(*engine, n, depth, 48, vocab);  // records the steps
    std::vector<double> rates;
    for (int i = 0; i < 3; ++i) rates.push_back(decode_rate(*engine, n, depth, 256, vocab));
    std::ranges::sort(rates);
    row += fmt::format(" {} x: {:.0f} |", n, rates[1]);
  }
  fmt::print("{}\n", row);
  return 0;
}

}  // namespace
}  // namespace mlxcel::engine

int main(int argc, char** argv) {
  try {
    return mlxcel::engine::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_bench: {}\n", e.what());
    return 1;
  }
}
