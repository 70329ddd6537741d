#include "engine/sampler_draw.h"

#include <algorithm>
#include <cmath>

#include "engine/philox.h"

namespace mlxcel::engine::sampling {

namespace {

constexpr double kMaxMu = 1e6;  // keeps an absurd eta or tau from becoming a NaN later

double total_weight(const std::vector<Candidate>& candidates) {
  double total = 0;
  for (const Candidate& c : candidates) total += static_cast<double>(c.weight);
  return total;
}

/// How many of the best tokens version 1 keeps: the Zipf exponent is estimated from the first 100.
size_t mirostat_top_k(const std::vector<Candidate>& sorted, double total, double vocab, double mu) {
  const size_t m = sorted.size();
  double sum_tb = 0, sum_tt = 0;
  for (size_t i = 0; i + 1 < m; ++i) {
    const double p = static_cast<double>(sorted[i].weight) / total;
    const double next = static_cast<double>(sorted[i + 1].weight) / total;
    if (next <= 0) break;
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    sum_tb += t * std::log(p / next);
    sum_tt += t * t;
  }
  const double s = sum_tb / sum_tt;
  const double epsilon = s - 1;
  const double k = std::pow(epsilon * std::exp2(mu) / (1 - std::pow(vocab, -epsilon)), 1 / s);
  if (!std::isfinite(k)) return static_cast<size_t>(vocab);
  return static_cast<size_t>(std::clamp(std::floor(k), 1.0, vocab));
}

}  // namespace

double next_uniform(SamplerState& state) { return philox_uniform(state.seed, state.counter++); }

size_t draw(const std::vector<Candidate>& candidates, SamplerState& state) {
  const double target = next_uniform(state) * total_weight(candidates);
  double sum = 0;
  size_t last = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].weight <= 0) continue;
    last = i;
    sum += static_cast<double>(candidates[i].weight);
    if (sum > target) return i;
  }
  return last;
}

size_t draw_mirostat(std::span<const float> logits, float max, const SamplingParams& params,
                     SamplerState& state, std::span<float> weights,
                     std::vector<Candidate>& candidates) {
  const double total = exp_row(logits, max, 1.0F, weights);
  const auto mu = static_cast<double>(state.mirostat_mu);
  if (params.mirostat == 1) {
    const size_t vocab = logits.size();
    select_top_k(logits, std::min<size_t>(100, vocab), candidates);
    weigh(candidates, max);
    const size_t k = mirostat_top_k(candidates, total, static_cast<double>(vocab), mu);
    select_top_k(logits, k, candidates);
  } else {
    // -log2 p <= max(mu, least surprise), as a bound on the weight; the best token always stays.
    const double least = std::min(total * std::exp2(-mu), 1.0);
    candidates.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
      if (weights[i] > 0 && static_cast<double>(weights[i]) >= least) {
        candidates.push_back({static_cast<TokenId>(i), logits[i], weights[i]});
      }
    }
  }
  const double kept = weigh(candidates, max);
  const size_t chosen = draw(candidates, state);
  const double surprise = -std::log2(static_cast<double>(candidates[chosen].weight) / kept);
  const double moved = mu - static_cast<double>(params.mirostat_eta) *
                                (surprise - static_cast<double>(params.mirostat_tau));
  state.mirostat_mu = static_cast<float>(std::clamp(moved, -kMaxMu, kMaxMu));
  return chosen;
}

size_t draw_adaptive(std::vector<Candidate>& candidates, const SamplingParams& params,
                     SamplerState& state) {
  const double decay = std::clamp(static_cast<double>(params.adaptive_decay), 0.0, 0.99);
  const double target = std::clamp(
      2 * static_cast<double>(params.adaptive_target) -
          static_cast<double>(state.adaptive_weighted) / static_cast<double>(state.adaptive_total),
      0.0, 1.0);
  const double total = total_weight(candidates);
  std::vector<double> original(candidates.size()), bent(candidates.size());
  double best = -1e300;
  for (size_t i = 0; i < candidates.size(); ++i) {
    original[i] = static_cast<double>(candidates[i].weight) / total;
    const double distance = std::abs(original[i] - target) / 0.3;
    bent[i] = 5 - 10 * distance * distance / (1 + distance);
    best = std::max(best, bent[i]);
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].weight = static_cast<float>(std::exp(bent[i] - best));
  }
  const size_t chosen = draw(candidates, state);
  state.adaptive_weighted =
      static_cast<float>(original[chosen] + decay * static_cast<double>(state.adaptive_weighted));
  state.adaptive_total = static_cast<float>(1 + decay * static_cast<double>(state.adaptive_total));
  return chosen;
}

}  // namespace mlxcel::engine::sampling
