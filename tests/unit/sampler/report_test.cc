// Log-probabilities before and after the chain.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference.h"

namespace mlxcel::engine {
namespace {

SampledToken draw(std::vector<float> logits, SamplingParams params) {
  SamplerState state;
  params.seed = 3;
  init_state(params, state);
  return sample(logits, params, {}, state, {}, 0);
}

TEST(Report, BeforeTheChainIsThePlainSoftmax) {
  const std::vector<float> row = {1, 4, 2, 3, 4};
  const auto p = reference::softmax(std::vector<double>(row.begin(), row.end()));
  SamplingParams params;
  params.logit_bias = {{1, -100.0F}, {4, -100.0F}};
  params.num_logprobs = 3;
  const auto token = draw(row, params);
  EXPECT_EQ(token.id, 3);
  EXPECT_NEAR(static_cast<double>(token.logprob), std::log(p[3]), 1e-6);
  ASSERT_EQ(token.top.size(), 3U);
  EXPECT_EQ(token.top[0].first, 1);
  EXPECT_EQ(token.top[1].first, 4);
  EXPECT_EQ(token.top[2].first, 3);
  EXPECT_NEAR(static_cast<double>(token.top[0].second), std::log(p[1]), 1e-6);
}

TEST(Report, LogprobWithoutAlternatives) {
  SamplingParams params;
  params.want_logprob = true;
  const auto token = draw({0, 0, 0, 0}, params);
  EXPECT_TRUE(token.top.empty());
  EXPECT_NEAR(static_cast<double>(token.logprob), std::log(0.25), 1e-6);
  SamplingParams off;
  EXPECT_TRUE(draw({0, 0}, off).top.empty());
}

TEST(Report, AfterTheChainGreedyIsCertain) {
  SamplingParams params;
  params.post_sampling_probs = true;
  params.num_logprobs = 4;
  const auto token = draw({1, 4, 2, 3, 0}, params);
  ASSERT_EQ(token.top.size(), 4U);
  EXPECT_EQ(token.top[0], (std::pair<TokenId, float>{1, 0.0F}));
  EXPECT_EQ(token.top[1].first, 3);
  EXPECT_EQ(token.top[1].second, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(token.logprob, 0.0F);
}

TEST(Report, MoreAlternativesThanTokens) {
  SamplingParams params;
  params.num_logprobs = 50;
  EXPECT_EQ(draw({1, 2, 3}, params).top.size(), 3U);
  params.post_sampling_probs = true;
  EXPECT_EQ(draw({1, 2, 3}, params).top.size(), 3U);
}

}  // namespace
}  // namespace mlxcel::engine
