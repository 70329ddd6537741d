// Mirostat and adaptive-p against plain formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/philox.h"
#include "reference.h"

namespace mlxcel::engine {
namespace {

std::vector<float> test_row(size_t vocab) {
  std::vector<float> row(vocab);
  for (size_t i = 0; i < vocab; ++i)
    row[i] = 4.0F * std::cos(2.3F * static_cast<float>(i)) - 0.003F * static_cast<float>(i);
  return row;
}

struct Ranked {
  std::vector<size_t> ids;
  std::vector<double> p;
};

Ranked ranked(const std::vector<float>& row, double temperature) {
  std::vector<double> l(row.begin(), row.end());
  for (double& x : l) x /= temperature;
  const auto p = reference::softmax(l);
  Ranked out;
  out.ids.resize(row.size());
  std::iota(out.ids.begin(), out.ids.end(), size_t{0});
  std::stable_sort(out.ids.begin(), out.ids.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  for (const size_t id : out.ids) out.p.push_back(p[id]);
  return out;
}

/// Tokens that version 1 or 2 keeps at level mu.
size_t kept(const Ranked& r, int version, double mu) {
  if (version == 2) {
    size_t n = 1;
    while (n < r.p.size() && -std::log2(r.p[n]) <= mu) ++n;
    return n;
  }
  const size_t m = std::min<size_t>(100, r.p.size());
  double tb = 0, tt = 0;
  for (size_t i = 0; i + 1 < m; ++i) {
    const double t = std::log((static_cast<double>(i) + 2) / (static_cast<double>(i) + 1));
    tb += t * std::log(r.p[i] / r.p[i + 1]);
    tt += t * t;
  }
  const double s = tb / tt, e = s - 1, v = static_cast<double>(r.p.size());
  const double k = std::pow(e * std::pow(2, mu) / (1 - std::pow(v, -e)), 1 / s);
  return std::isfinite(k) ? static_cast<size_t>(std::clamp(std::floor(k), 1.0, v)) : r.p.size();
}

class Mirostat : public ::testing::TestWithParam<int> {};

TEST_P(Mirostat, KeepsAndUpdatesAsWritten) {
  SamplingParams params;
  params.temperature = 0.9F;
  params.mirostat = GetParam();
  params.mirostat_tau = 3.0F;
  params.mirostat_eta = 0.2F;
  params.seed = 9;
  SamplerState state;
  init_state(params, state);
  EXPECT_FLOAT_EQ(state.mirostat_mu, 6.0F);
  const auto row = test_row(300);
  const Ranked r = ranked(row, 0.9);
  double mean_surprise = 0;
  constexpr int kSteps = 400;
  for (int step = 0; step < kSteps; ++step) {
    const double mu = static_cast<double>(state.mirostat_mu);
    const size_t n = kept(r, params.mirostat, mu);
    auto logits = row;
    const auto token = sample(logits, params, {}, state, {}, 0);
    const auto at = static_cast<size_t>(
        std::find(r.ids.begin(), r.ids.end(), static_cast<size_t>(token.id)) - r.ids.begin());
    ASSERT_LT(at, n + 1) << "token outside the kept ones at mu " << mu;  // +1: rounding at the edge
    const double mass = std::accumulate(r.p.begin(), r.p.begin() + static_cast<ptrdiff_t>(n), 0.0);
    const double surprise = -std::log2(r.p[at] / mass);
    ASSERT_NEAR(static_cast<double>(state.mirostat_mu), mu - 0.2 * (surprise - 3.0), 0.02);
    mean_surprise += surprise / kSteps;
  }
  EXPECT_NEAR(mean_surprise, 3.0, 0.3);
}
INSTANTIATE_TEST_SUITE_P(Versions, Mirostat, ::testing::Values(1, 2));

TEST(MirostatLimits, SurvivesAbsurdNumbers) {
  for (const int version : {1, 2}) {
    SamplingParams params;
    params.temperature = 1.0F;
    params.mirostat = version;
    params.mirostat_tau = 1e30F;
    params.mirostat_eta = 1e30F;
    params.seed = 1;
    SamplerState state;
    init_state(params, state);
    for (int i = 0; i < 10; ++i) {
      std::vector<float> logits = {1, 2, 3};
      const auto token = sample(logits, params, {}, state, {}, 0);
      EXPECT_GE(token.id, 0);
      EXPECT_LT(token.id, 3);
    }
    std::vector<float> one = {1};
    EXPECT_EQ(sample(one, params, {}, state, {}, 0).id, 0);
    params.temperature = 0;
    std::vector<float> row = {1, 3, 3};
    EXPECT_EQ(sample(row, params, {}, state, {}, 0).id, 1);
  }
}

TEST(AdaptiveP, FollowsItsFormula) {
  SamplingParams params;
  params.temperature = 1.0F;
  params.adaptive_target = 0.3F;
  params.adaptive_decay = 0.9F;
  params.seed = 4;
  params.post_sampling_probs = true;
  params.num_logprobs = 5;
  SamplerState state;
  init_state(params, state);
  EXPECT_NEAR(static_cast<double>(state.adaptive_weighted), 3.0, 1e-5);
  EXPECT_NEAR(static_cast<double>(state.adaptive_total), 10.0, 1e-4);
  const std::vector<float> row = {2, 1, 0.5F, 0, -1};
  const auto p = reference::softmax(std::vector<double>(row.begin(), row.end()));
  for (int step = 0; step < 50; ++step) {
    const double weighted = static_cast<double>(state.adaptive_weighted);
    const double total = static_cast<double>(state.adaptive_total);
    const double target = std::clamp(2 * 0.3 - weighted / total, 0.0, 1.0);
    std::vector<double> bent(5);
    for (size_t i = 0; i < 5; ++i) {
      const double d = std::abs(p[i] - target) / 0.3;
      bent[i] = 5 - 10 * d * d / (1 + d);
    }
    const auto expected = reference::softmax(bent);
    auto logits = row;
    const auto token = sample(logits, params, {}, state, {}, 0);
    for (const auto& [id, logprob] : token.top) {
      ASSERT_NEAR(std::exp(static_cast<double>(logprob)), expected[static_cast<size_t>(id)], 1e-5);
    }
    const double chosen = p[static_cast<size_t>(token.id)];
    ASSERT_NEAR(static_cast<double>(state.adaptive_weighted), chosen + 0.9 * weighted, 1e-5);
    ASSERT_NEAR(static_cast<double>(state.adaptive_total), 1 + 0.9 * total, 1e-5);
  }
}

}  // namespace
}  // namespace mlxcel::engine
