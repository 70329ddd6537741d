// End to end with fixed seeds: do the draws follow the reference distribution?
#include <gtest/gtest.h>

#include <cmath>

#include "reference.h"

namespace mlxcel::engine {
namespace {

std::vector<float> test_row(size_t vocab) {
  std::vector<float> row(vocab);
  for (size_t i = 0; i < vocab; ++i)
    row[i] = 3.0F * std::sin(1.7F * static_cast<float>(i)) + 0.01F * static_cast<float>(i % 7);
  return row;
}

std::vector<int> draw_counts(const std::vector<float>& row, const SamplingParams& params, int draws,
                             const std::vector<TokenId>& history = {}) {
  SamplerState state;
  init_state(params, state);
  std::vector<int> counts(row.size());
  for (int i = 0; i < draws; ++i) {
    std::vector<float> logits = row;
    ++counts[static_cast<size_t>(sample(logits, params, {}, state, history, 0).id)];
  }
  return counts;
}

/// Pearson's statistic over cells with at least five expected draws; the rest is one cell.
double chi_square(const std::vector<int>& counts, const std::vector<double>& p, int draws,
                  int& cells) {
  double statistic = 0, rest_expected = 0, rest_seen = 0;
  cells = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double expected = p[i] * draws;
    if (expected < 5) {
      rest_expected += expected;
      rest_seen += counts[i];
      continue;
    }
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++cells;
  }
  if (rest_expected >= 5) {
    statistic += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++cells;
  }
  return statistic;
}

/// Upper 0.1 % point by the Wilson-Hilferty approximation.
double critical_value(int degrees) {
  const double k = degrees, z = 3.09;
  return k * std::pow(1 - 2 / (9 * k) + z * std::sqrt(2 / (9 * k)), 3);
}

void expect_distribution(SamplingParams params, uint64_t seed,
                         const std::vector<TokenId>& history = {}) {
  constexpr int kDraws = 60000;
  params.seed = seed;
  const auto row = test_row(97);
  const auto expected = reference::chain(row, params, {}, history, false);
  const auto counts = draw_counts(row, params, kDraws, history);
  for (size_t i = 0; i < row.size(); ++i) {
    ASSERT_TRUE(expected.p[i] > 0 || counts[i] == 0) << "removed token " << i << " was drawn";
  }
  int cells = 0;
  const double statistic = chi_square(counts, expected.p, kDraws, cells);
  ASSERT_GT(cells, 1);
  EXPECT_LT(statistic, critical_value(cells - 1)) << cells << " cells";
}

TEST(ChiSquare, EveryShapeOfDistribution) {
  SamplingParams plain;
  plain.temperature = 1.0F;
  expect_distribution(plain, 11);
  SamplingParams hot = plain;
  hot.temperature = 3.0F;
  expect_distribution(hot, 12);
  SamplingParams top_k = plain;
  top_k.top_k = 12;
  expect_distribution(top_k, 13);
  SamplingParams top_p = plain;
  top_p.top_p = 0.7F;
  top_p.temperature = 0.7F;
  expect_distribution(top_p, 14);
  SamplingParams min_p = plain;
  min_p.min_p = 0.1F;
  expect_distribution(min_p, 15);
  SamplingParams typical = plain;
  typical.typical_p = 0.6F;
  expect_distribution(typical, 16);
  SamplingParams dynamic = plain;
  dynamic.dynatemp_range = 0.6F;
  expect_distribution(dynamic, 17);
  SamplingParams all = plain;
  all.top_k = 40;
  all.top_p = 0.9F;
  all.min_p = 0.02F;
  all.temperature = 0.8F;
  all.repetition_penalty = 1.3F;
  all.presence_penalty = 0.4F;
  expect_distribution(all, 18, {1, 2, 2, 5, 90});
}

TEST(ChiSquare, XtcDropsTopChoicesWithItsProbability) {
  constexpr int kDraws = 60000;
  SamplingParams params;
  params.temperature = 1.0F;
  params.xtc_probability = 0.3F;
  params.xtc_threshold = 0.05F;
  params.seed = 21;
  const std::vector<float> row = {2.0F, 1.5F, 1.0F, 0.0F, -1.0F};
  const auto kept = reference::chain(row, params, {}, {}, false);
  const auto cut = reference::chain(row, params, {}, {}, true);
  std::vector<double> mix(row.size());
  for (size_t i = 0; i < mix.size(); ++i) mix[i] = 0.7 * kept.p[i] + 0.3 * cut.p[i];
  int cells = 0;
  EXPECT_LT(chi_square(draw_counts(row, params, kDraws), mix, kDraws, cells), critical_value(4));
}

TEST(ChiSquare, SameSeedSameDraws) {
  SamplingParams params;
  params.temperature = 1.0F;
  params.seed = 5;
  const auto row = test_row(97);
  EXPECT_EQ(draw_counts(row, params, 500), draw_counts(row, params, 500));
  SamplingParams other = params;
  other.seed = 6;
  EXPECT_NE(draw_counts(row, params, 500), draw_counts(row, other, 500));
  // A resumed state goes on where it stopped.
  SamplerState whole, part;
  init_state(params, whole);
  init_state(params, part);
  for (int i = 0; i < 20; ++i) {
    auto a = row, b = row;
    const TokenId expected = sample(a, params, {}, whole, {}, 0).id;
    if (i == 10) part = SamplerState(part);
    EXPECT_EQ(sample(b, params, {}, part, {}, 0).id, expected);
  }
}

}  // namespace
}  // namespace mlxcel::engine
