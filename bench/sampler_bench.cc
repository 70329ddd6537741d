// Cost of one draw at a vocabulary of 131,072: what a decode step pays for sampling.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/sampler.h"

namespace {

using mlxcel::engine::SamplingParams;

constexpr size_t kVocab = 131072;

/// Logits shaped like a language model's: a wide bell with a few tokens far above it.
const std::vector<float>& logits() {
  static const std::vector<float> kLogits = [] {
    std::mt19937 rng(7);
    std::normal_distribution<float> bulk(0.0F, 2.5F), head(14.0F, 2.0F);
    std::vector<float> row(kVocab);
    for (float& x : row) x = bulk(rng);
    for (int i = 0; i < 30; ++i) row[rng() % kVocab] = head(rng);
    return row;
  }();
  return kLogits;
}

void run(benchmark::State& state, SamplingParams params, size_t history_tokens = 0) {
  params.seed = 1;
  mlxcel::engine::SamplerState sampler;
  mlxcel::engine::init_state(params, sampler);
  const mlxcel::engine::SamplerContext context;
  std::vector<mlxcel::engine::TokenId> history(history_tokens);
  for (size_t i = 0; i < history.size(); ++i) {
    history[i] = static_cast<mlxcel::engine::TokenId>(i * 7919 % 5000);
  }
  std::vector<float> row(kVocab);
  for (auto _ : state) {
    std::copy(logits().begin(), logits().end(), row.begin());  // part of the measurement: 20 us
    benchmark::DoNotOptimize(mlxcel::engine::sample(row, params, context, sampler, history, 0).id);
  }
}

SamplingParams warm() {
  SamplingParams params;
  params.temperature = 0.8F;
  return params;
}

void greedy(benchmark::State& state) { run(state, {}); }
void temperature(benchmark::State& state) { run(state, warm()); }
void top_k(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_k = 40;
  run(state, p);
}
void server_defaults(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_k = 40;
  p.top_p = 0.9F;
  p.min_p = 0.1F;
  run(state, p);
}
void top_p(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_p = 0.95F;
  run(state, p);
}
void min_p(benchmark::State& state) {
  SamplingParams p = warm();
  p.min_p = 0.05F;
  run(state, p);
}
void typical(benchmark::State& state) {
  SamplingParams p = warm();
  p.typical_p = 0.9F;
  run(state, p);
}
void top_n_sigma(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_n_sigma = 1.0F;
  run(state, p);
}
void mirostat2(benchmark::State& state) {
  SamplingParams p = warm();
  p.mirostat = 2;
  run(state, p);
}
void penalties_and_dry(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_k = 40;
  p.repetition_penalty = 1.1F;
  p.presence_penalty = 0.2F;
  p.dry_multiplier = 0.8F;
  run(state, p, 4096);
}
void top_logprobs(benchmark::State& state) {
  SamplingParams p = warm();
  p.top_k = 40;
  p.want_logprob = true;
  p.num_logprobs = 20;
  run(state, p);
}

BENCHMARK(greedy)->Unit(benchmark::kMicrosecond);
BENCHMARK(temperature)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k)->Unit(benchmark::kMicrosecond);
BENCHMARK(server_defaults)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p)->Unit(benchmark::kMicrosecond);
BENCHMARK(min_p)->Unit(benchmark::kMicrosecond);
BENCHMARK(typical)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_n_sigma)->Unit(benchmark::kMicrosecond);
BENCHMARK(mirostat2)->Unit(benchmark::kMicrosecond);
BENCHMARK(penalties_and_dry)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_logprobs)->Unit(benchmark::kMicrosecond);

}  // namespace
