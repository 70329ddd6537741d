// The whole chain against the float64 reference: the final distribution, token by token, for random
// rows and random parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reference.h"

namespace mlxcel::engine {
namespace {

std::vector<float> random_row(std::mt19937& rng, size_t vocab, float spread) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(vocab);
  for (float& x : row) x = normal(rng);
  return row;
}

/// The distribution that sample() drew from, by token id.
std::vector<double> drawn_distribution(const std::vector<float>& row, SamplingParams params,
                                       const SamplerContext& context,
                                       const std::vector<TokenId>& history) {
  params.post_sampling_probs = true;
  params.want_logprob = true;
  params.num_logprobs = static_cast<int32_t>(row.size());
  params.seed = 1;
  SamplerState state;
  init_state(params, state);
  std::vector<float> logits = row;
  const SampledToken token = sample(logits, params, context, state, history, 0);
  std::vector<double> p(row.size(), 0.0);
  for (const auto& [id, logprob] : token.top) {
    p[static_cast<size_t>(id)] = std::exp(static_cast<double>(logprob));
  }
  EXPECT_EQ(token.top.size(), row.size());
  EXPECT_GT(p[static_cast<size_t>(token.id)], 0.0);
  EXPECT_NEAR(std::exp(static_cast<double>(token.logprob)), p[static_cast<size_t>(token.id)], 1e-6);
  return p;
}

void expect_same(const std::vector<float>& row, const SamplingParams& params,
                 const SamplerContext& context, const std::vector<TokenId>& history,
                 int& compared) {
  const bool gate = params.xtc_probability >= 1 && params.xtc_threshold <= 0.5F;
  const auto expected = reference::chain(row, params, context, history, gate);
  if (expected.margin < 1e-6) return;  // float rounding may decide; covered by exact cases
  const auto actual = drawn_distribution(row, params, context, history);
  for (size_t i = 0; i < row.size(); ++i) {
    ASSERT_EQ(expected.p[i] > 1e-30, actual[i] > 0) << "token " << i << " p " << expected.p[i];
    ASSERT_NEAR(expected.p[i], actual[i], 2e-6 + 2e-5 * expected.p[i]) << "token " << i;
  }
  ++compared;
}

class Chain : public ::testing::Test {
 protected:
  std::mt19937 rng{20240607};
  int compared = 0;

  template <class Set>
  void over_random_rows(const Set& set) {
    for (int i = 0; i < 60; ++i) {
      SamplingParams params;
      params.temperature = 0.3F + 0.05F * static_cast<float>(i);
      set(params, i);
      const auto row = random_row(rng, 3 + static_cast<size_t>(rng() % 1500),
                                  1.0F + 0.1F * static_cast<float>(i % 30));
      ASSERT_NO_FATAL_FAILURE(expect_same(row, params, {}, {}, compared)) << "case " << i;
    }
    EXPECT_GT(compared, 30);
  }
  float uniform() { return std::uniform_real_distribution<float>(0.01F, 0.99F)(rng); }
};

TEST_F(Chain, TemperatureAlone) {
  over_random_rows([](SamplingParams&, int) {});
}
TEST_F(Chain, TopK) {
  over_random_rows([](SamplingParams& p, int i) { p.top_k = 2 + i * i; });
}
TEST_F(Chain, TopP) {
  over_random_rows([&](SamplingParams& p, int) { p.top_p = uniform(); });
}
TEST_F(Chain, TopPCloseToOne) {
  over_random_rows([&](SamplingParams& p, int) { p.top_p = 1.0F - 0.001F * uniform(); });
}
TEST_F(Chain, MinP) {
  over_random_rows([&](SamplingParams& p, int) { p.min_p = uniform() * 0.3F; });
}
TEST_F(Chain, TopNSigma) {
  over_random_rows([&](SamplingParams& p, int) { p.top_n_sigma = 3 * uniform(); });
}
TEST_F(Chain, PLess) {
  over_random_rows([](SamplingParams& p, int) { p.p_less = true; });
}
TEST_F(Chain, Typical) {
  over_random_rows([&](SamplingParams& p, int) { p.typical_p = uniform(); });
}
TEST_F(Chain, Xtc) {
  over_random_rows([&](SamplingParams& p, int) {
    p.xtc_probability = 1.0F;
    p.xtc_threshold = 0.3F * uniform();
  });
}
TEST_F(Chain, Dynatemp) {
  over_random_rows([&](SamplingParams& p, int) {
    p.dynatemp_range = uniform() * 2;
    p.dynatemp_exponent = 0.5F + uniform();
    p.top_k = 50;
  });
}

TEST_F(Chain, EverythingTogetherWithPenalties) {
  for (int i = 0; i < 400; ++i) {
    SamplingParams p;
    p.temperature = 0.2F + 1.5F * uniform();
    if (rng() % 2 == 0) p.top_k = 2 + static_cast<int32_t>(rng() % 200);
    if (rng() % 2 == 0) p.top_p = uniform();
    if (rng() % 2 == 0) p.min_p = 0.2F * uniform();
    if (rng() % 4 == 0) p.typical_p = uniform();
    if (rng() % 4 == 0) p.top_n_sigma = 4 * uniform();
    if (rng() % 4 == 0) p.p_less = true;
    if (rng() % 4 == 0) p.min_keep = static_cast<int32_t>(rng() % 20);
    if (rng() % 4 == 0) p.dynatemp_range = uniform();
    if (rng() % 4 == 0) p.xtc_probability = 1, p.xtc_threshold = 0.3F * uniform();
    p.repetition_penalty = 0.8F + 0.5F * uniform();
    p.frequency_penalty = uniform() - 0.3F;
    p.presence_penalty = uniform() - 0.3F;
    p.repeat_last_n = static_cast<int32_t>(rng() % 40) - 1;
    if (p.repeat_last_n == 0) p.repeat_last_n = -1;
    p.dry_multiplier = uniform();
    p.dry_allowed_length = static_cast<int32_t>(rng() % 4);
    const size_t vocab = 20 + rng() % 400;
    SamplerContext context;
    context.eos_ids = {3};
    context.xtc_protected = {3, 5};
    context.dry_breakers[7] = {{}};
    context.dry_breakers[8] = {{1, 2}, {1}};
    p.ignore_eos = rng() % 2 == 0;
    p.logit_bias = {{4, 2.5F}, {6, -std::numeric_limits<float>::infinity()}, {4, -1.0F}};
    std::vector<TokenId> history(rng() % 60);
    for (TokenId& id : history) id = static_cast<TokenId>(rng() % 10);
    const auto row = random_row(rng, vocab, 2.0F);
    ASSERT_NO_FATAL_FAILURE(expect_same(row, p, context, history, compared)) << "case " << i;
  }
  EXPECT_GT(compared, 300);
}

TEST_F(Chain, LargeVocabularyTakesTheSamePath) {
  for (int i = 0; i < 12; ++i) {
    SamplingParams p;
    p.temperature = 0.8F;
    if (i % 2 == 0) p.top_k = 40;
    p.top_p = 0.95F;
    if (i % 3 == 0) p.min_p = 0.05F;
    ASSERT_NO_FATAL_FAILURE(expect_same(random_row(rng, 131072, 2.5F), p, {}, {}, compared));
  }
  EXPECT_GT(compared, 3);
}

}  // namespace
}  // namespace mlxcel::engine
