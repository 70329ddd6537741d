// mlxcel bench: how fast a model reads prompts and writes text on this machine, beside what the
// machine could do at most. Requests go through the engine, as those of every other command.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "apps/commands.h"
#include "apps/load_model.h"
#include "backend/ceilings.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "engine/engine.h"
#include "io/gguf.h"
#include "ops/activations.h"
#include "ops/ops.h"

namespace mlxcel::apps {
namespace {

using Clock = std::chrono::steady_clock;

/// Notes when tokens came.
class TimingSink final : public engine::EventSink {
 public:
  void push(engine::Event event) noexcept override {
    const std::lock_guard lock(mutex_);
    if (std::get_if<engine::TokenEvent>(&event) != nullptr) {
      times_.push_back(Clock::now());
      return;
    }
    if (const auto* error = std::get_if<Error>(&event)) failure_ = error->what();
    ended_ = true;
    changed_.notify_all();
  }
  /// The times of all tokens; throws what ended the request early.
  std::vector<Clock::time_point> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    if (!failure_.empty()) throw Error(Code::Internal, failure_);
    return times_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Clock::time_point> times_;
  std::string failure_;
  bool ended_ = false;
};

struct Test {
  bool prefill = true;
  int64_t tokens = 0;  // of one sequence
  int64_t depth = 0, batch = 1;
  int threads = 1;
  std::vector<double> rates;  // tokens a second of all sequences, one for each repetition
  double median() const {
    std::vector<double> sorted = rates;
    std::ranges::sort(sorted);
    const size_t n = sorted.size();
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  }
  std::string name() const {
    return fmt::format("{}{}{}", prefill ? "pp" : "tg", tokens,
                       depth > 0 ? fmt::format(" @ d{}", depth) : "");
  }
};

std::vector<text::TokenId> prompt_of(int64_t length, int64_t seed, int64_t vocab) {
  std::vector<text::TokenId> out;
  uint64_t state = static_cast<uint64_t>(seed) * 7919 + 1;
  while (static_cast<int64_t>(out.size()) < length) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out.push_back(static_cast<text::TokenId>((state >> 33) % static_cast<uint64_t>(vocab)));
  }
  return out;
}

struct Timeline {
  Clock::time_point start;
  std::vector<std::vector<Clock::time_point>> tokens;  // by sequence, at least one each
  /// When every sequence had its first token.
  Clock::time_point all_started() const {
    Clock::time_point t = start;
    for (const auto& one : tokens) t = std::max(t, one.front());
    return t;
  }
};

Timeline run_sequences(engine::Engine& engine, int64_t batch, int64_t prompt, int64_t tokens,
                       int64_t seed, int64_t vocab) {
  std::vector<std::shared_ptr<TimingSink>> sinks;
  Timeline out{.start = Clock::now(), .tokens = {}};
  for (int64_t i = 0; i < batch; ++i) {
    engine::Request r;
    r.prompt = prompt_of(prompt, seed * 1024 + i, vocab);
    r.max_tokens = static_cast<int32_t>(tokens);
    r.sampling.temperature = 0.0F;
    r.use_prefix_cache = false;
    sinks.push_back(std::make_shared<TimingSink>());
    auto submitted = engine.submit(std::move(r), sinks.back());
    if (!submitted.ok()) throw Error(submitted.error());
  }
  for (const auto& sink : sinks) {
    out.tokens.push_back(sink->wait());
    if (out.tokens.back().empty()) throw Error(Code::Internal, "a sequence had no token");
  }
  return out;
}

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

/// Tokens a second in one repetition. Prefill: until every sequence has its first token, less the
/// same with the depth alone. Decode: from then on, while all sequences run.
double measure(engine::Engine& engine, const Test& t, int64_t vocab, int64_t seed) {
  if (t.prefill) {
    // On a busy machine the part may seem to take longer than the whole.
    for (int attempt = 0; attempt < 5; ++attempt) {
      const Timeline whole = run_sequences(engine, t.batch, t.depth + t.tokens, 1, seed, vocab);
      double seconds = seconds_between(whole.start, whole.all_started());
      if (t.depth > 0) {
        const Timeline before = run_sequences(engine, t.batch, t.depth, 1, seed, vocab);
        seconds -= seconds_between(before.start, before.all_started());
      }
      if (seconds > 0) return static_cast<double>(t.tokens * t.batch) / seconds;
    }
    throw Error(Code::InvalidArgument,
                t.name() + " takes too little time to be told from its depth: give more tokens");
  }
  const Timeline all =
      run_sequences(engine, t.batch, std::max<int64_t>(t.depth, 1), t.tokens + 1, seed, vocab);
  const Clock::time_point first = all.all_started();
  Clock::time_point last = Clock::time_point::max();
  for (const auto& one : all.tokens) last = std::min(last, one.back());
  int64_t tokens = 0;
  for (const auto& one : all.tokens) {
    tokens += std::ranges::count_if(one, [&](auto at) { return at > first && at <= last; });
  }
  if (tokens == 0) throw Error(Code::Internal, "the sequences did not overlap");
  return static_cast<double>(tokens) / seconds_between(first, last);
}

/// Multiply-adds with weights for one token; zero where the file does not say it (SafeTensors).
int64_t weight_products(const io::Checkpoint& checkpoint) {
  if (!checkpoint.gguf) return 0;
  int64_t total = 0;
  int64_t embedding = 0;
  bool head = false;
  for (const io::GgufTensor& t : checkpoint.gguf->tensors()) {
    if (t.dims.size() < 2) continue;
    int64_t n = 1;
    for (const int64_t d : t.dims) n *= d;
    if (t.name == "token_embd.weight") embedding = n;
    head = head || t.name == "output.weight";
    if (t.name != "token_embd.weight") total += n;
  }
  return total + (head ? 0 : embedding);
}

struct Costs {
  double weight_bytes = 0, kv_bytes = 0, products = 0;  // of one token; kv at the test's depth
};

Costs costs_of(const LoadedChatModel& model, const Test& t) {
  Costs c;
  c.weight_bytes = static_cast<double>(model.lm->weight_bytes());
  c.products = static_cast<double>(weight_products(model.checkpoint));
  for (const nn::CacheSpec& s : model.lm->spec().caches) {
    const double seen = static_cast<double>(t.depth) + static_cast<double>(t.tokens) / 2;
    const double visible = s.window > 0 ? std::min<double>(s.window, seen) : seen;
    c.kv_bytes += 2.0 * s.num_kv_heads * (s.k_dim + s.v_dim) * visible;
  }
  return c;
}

/// Share of the ceiling that binds: reading for decode, arithmetic for prefill; negative: unknown.
double share_of(const Test& t, const Costs& c, const backend::Ceilings& ceilings) {
  if (t.prefill) {
    const bool rounded = ops::cpu_activations() != ops::Activations::F32;
    const double peak =
        rounded && ceilings.int16_gop_s > 0 ? ceilings.int16_gop_s : ceilings.f32_gflop_s;
    return c.products > 0 ? t.median() * 2 * c.products / 1e9 / peak : -1;
  }
  const double bytes = c.weight_bytes / static_cast<double>(t.batch) + c.kv_bytes;
  return t.median() * bytes / 1e9 / ceilings.read_gb_s;
}

Json test_json(const Test& t, const Costs& c, const backend::Ceilings& ceilings) {
  Json out = Json::object();
  out.set("test", t.name());
  out.set("kind", t.prefill ? "prefill" : "decode");
  out.set("tokens", t.tokens);
  out.set("depth", t.depth);
  out.set("batch", t.batch);
  out.set("threads", int64_t{t.threads});
  out.set("tokens_per_second", t.median());
  Json rates = Json::array();
  for (const double r : t.rates) rates.push_back(r);
  out.set("repetitions", std::move(rates));
  out.set("weight_bytes", c.weight_bytes);
  out.set("kv_bytes_per_token", c.kv_bytes);
  out.set("operations_per_token", 2 * c.products);
  const double share = share_of(t, c, ceilings);
  out.set("share_of_ceiling", share >= 0 ? Json(share) : Json());
  return out;
}

std::vector<Test> tests_of(const BenchArguments& a, int threads) {
  std::vector<Test> out;
  for (const int64_t batch : a.batch) {
    for (const int64_t depth : a.depth) {
      for (const int64_t n : a.prompt_tokens) {
        if (n > 0) out.push_back({true, n, depth, batch, threads, {}});
      }
      for (const int64_t n : a.generated_tokens) {
        if (n > 0) out.push_back({false, n, depth, batch, threads, {}});
      }
    }
  }
  return out;
}

void run_tests(const BenchArguments& a, const LoadedChatModel& model, std::vector<Test>& tests) {
  int64_t context = 0;
  int64_t batch = 1;
  for (const Test& t : tests) {
    context = std::max(context, t.depth + t.tokens + 2);
    batch = std::max(batch, t.batch);
  }
  engine::EngineOptions options;
  options.context_tokens = static_cast<int32_t>(context);
  options.max_batch = options.max_batch_prefill = static_cast<int32_t>(batch);
  options.prefix_cache = false;
  const auto engine = engine::Engine::start(model.lm, nullptr, options);
  const int64_t vocab = model.lm->spec().vocab_size;
  for (Test& t : tests) {
    for (int64_t r = 0; r <= a.repetitions; ++r) {
      const double rate = measure(*engine, t, vocab, r);
      if (r > 0) t.rates.push_back(rate);  // the first run touches memory for the first time
    }
  }
}

}  // namespace

int bench(const BenchArguments& a) {
  if (a.kernels) return bench_kernels(a);
  const Device device = choose_device();
  LoadedChatModel model =
      load_without_weights(a.model.model, io::resolve_model(a.model.model, a.model.hub));
  load_weights(model, device);
  Json results = Json::array();
  if (!a.json) {
    fmt::print("{}: {:.1f} MiB of weights, loaded in {:.2f} s; {} kernels, {} activations\n\n",
               model.name, static_cast<double>(model.lm->weight_bytes()) / (1 << 20),
               model.load_seconds, ops::cpu_isa(), ops::activations_name(ops::cpu_activations()));
  }
  Json ceilings_json = Json::array();
  for (const int64_t threads : a.threads) {
    ThreadPool pool(static_cast<int>(threads));
    ThreadPool* before = ThreadPool::replace_shared(&pool);
    const backend::Ceilings ceilings = backend::measure_ceilings();
    std::vector<Test> tests = tests_of(a, pool.num_threads());
    run_tests(a, model, tests);
    ThreadPool::replace_shared(before);
    Json c = Json::object();
    c.set("threads", int64_t{pool.num_threads()});
    c.set("read_gb_s", ceilings.read_gb_s);
    c.set("f32_gflop_s", ceilings.f32_gflop_s);
    c.set("int16_gop_s", ceilings.int16_gop_s);
    ceilings_json.push_back(std::move(c));
    if (!a.json) {
      fmt::print(
          "{} threads; ceilings: read {:.1f} GB/s, f32 {:.0f} GFLOP/s, int16 {:.0f} Gop/s\n\n",
          pool.num_threads(), ceilings.read_gb_s, ceilings.f32_gflop_s, ceilings.int16_gop_s);
      fmt::print("| test | batch | threads | tok/s (median) | min | max | of ceiling |\n");
      fmt::print("|---|---|---|---|---|---|---|\n");
    }
    for (const Test& t : tests) {
      const Costs costs = costs_of(model, t);
      results.push_back(test_json(t, costs, ceilings));
      if (a.json) continue;
      const double share = share_of(t, costs, ceilings);
      const auto [low, high] = std::ranges::minmax(t.rates);
      fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {} |\n", t.name(), t.batch, t.threads,
                 t.median(), low, high,
                 share >= 0 ? fmt::format("{:.0f} %", 100 * share) : std::string("unknown"));
    }
    if (!a.json) fmt::print("\n");
  }
  if (a.json) {
    Json out = Json::object();
    out.set("mlxcel_version", version());
    out.set("model", model.name);
    out.set("isa", ops::cpu_isa());
    out.set("activations", ops::activations_name(ops::cpu_activations()));
    out.set("load_seconds", model.load_seconds);
    out.set("weight_bytes", model.lm->weight_bytes());
    out.set("ceilings", std::move(ceilings_json));
    out.set("results", std::move(results));
    fmt::print("{}\n", out.dump(2));
  }
  return 0;
}

}  // namespace mlxcel::apps
