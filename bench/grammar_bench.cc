// Grammars over a real vocabulary: compile time, first mask, and the masks of whole answers.
// MLXCEL_BENCH_TOKENIZER names a tokenizer.json or *.tiktoken file, MLXCEL_BENCH_SCHEMAS a folder
// of JSON Schema Test Suite files (tests/data/json-schema). Prints a table; BENCHMARK() has no
// percentiles.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "text/grammar/constraint.h"
#include "text/tokenizer.h"

namespace mlxcel {
namespace {

using text::Grammar;
using text::TokenId;

// Of this thread: other work on the machine does not count.
double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

struct Times {
  std::vector<double> compile_ms, first_us, mask_us;
};

double percentile(std::vector<double> v, double p) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<size_t>(p * static_cast<double>(v.size())))];
}

// Takes allowed tokens at random, as a model without sense would.
void walk(const std::shared_ptr<const Grammar>& grammar,
          const std::shared_ptr<const text::GrammarVocab>& vocab, TokenId stop, Times& times,
          std::mt19937& random) {
  const auto c = text::make_constraint(grammar, vocab);
  std::vector<uint32_t> bits((static_cast<size_t>(vocab->vocab_size()) + 31) / 32);
  for (int step = 0; step < 60; ++step) {
    const double begin = cpu_us();
    c->fill_mask(bits);
    (step == 0 ? times.first_us : times.mask_us).push_back(cpu_us() - begin);
    std::vector<TokenId> allowed;
    for (size_t w = 0; w < bits.size(); ++w) {
      for (uint32_t b = bits[w]; b != 0; b &= b - 1) {
        allowed.push_back(static_cast<TokenId>(w * 32 + static_cast<size_t>(__builtin_ctz(b))));
      }
    }
    const bool done = c->may_stop() && random() % 4 == 0;
    const TokenId next = allowed.empty() || done ? stop : allowed[random() % allowed.size()];
    if (!c->accept(next) || next == stop) return;
  }
}

void Masks(benchmark::State& state) {
  const char* path = std::getenv("MLXCEL_BENCH_TOKENIZER");
  const char* folder = std::getenv("MLXCEL_BENCH_SCHEMAS");
  if (path == nullptr || folder == nullptr) {
    state.SkipWithError("set MLXCEL_BENCH_TOKENIZER and MLXCEL_BENCH_SCHEMAS");
    return;
  }
  const std::string data = read_file(path);
  std::shared_ptr<const text::Tokenizer> tokenizer;
  if (std::string_view(path).ends_with(".json")) {
    tokenizer = text::parse_tokenizer_json(data).value();
  } else {
    const auto lines = static_cast<size_t>(std::count(data.begin(), data.end(), '\n'));
    tokenizer = text::parse_tiktoken(data, text::known_tiktoken_options(lines).value()).value();
  }
  const TokenId stop = tokenizer->eos_id().value_or(tokenizer->vocab_size() - 1);
  double begin = cpu_us();
  const auto vocab = text::make_grammar_vocab(tokenizer, {stop}, tokenizer->vocab_size());
  fmt::print("{} tokens; vocabulary arranged in {:.0f} ms\n", tokenizer->vocab_size(),
             (cpu_us() - begin) / 1e3);
  for (auto _ : state) {
    Times times;
    std::mt19937 random(1);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".json") continue;
      const Json groups = Json::parse(read_file(entry.path().string())).value();
      for (const Json& group : groups.as_array()) {
        begin = cpu_us();
        const auto grammar = Grammar::from_json_schema(*group.find("schema"));
        if (!grammar.ok()) continue;
        times.compile_ms.push_back((cpu_us() - begin) / 1e3);
        for (int i = 0; i < 5; ++i) walk(grammar.value(), vocab, stop, times, random);
      }
    }
    const auto print = [](const char* what, const std::vector<double>& v) {
      fmt::print("{}: {} values, median {:.2f}, 90% {:.2f}, 99% {:.2f}, most {:.2f}\n", what,
                 v.size(), percentile(v, 0.5), percentile(v, 0.9), percentile(v, 0.99),
                 percentile(v, 1));
    };
    print("compile (ms)", times.compile_ms);
    print("first mask of an answer (us)", times.first_us);
    print("mask (us)", times.mask_us);
  }
}
BENCHMARK(Masks)->Iterations(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mlxcel
