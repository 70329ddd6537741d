// Ties, limits and broken logits: cases where the answer is exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "reference.h"

namespace mlxcel::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

SampledToken draw(std::vector<float> logits, SamplingParams params,
                  const SamplerContext& context = {}, const std::vector<TokenId>& history = {},
                  std::span<const uint32_t> mask = {}) {
  SamplerState state;
  if (!params.seed) params.seed = 3;
  init_state(params, state);
  return sample(logits, params, context, state, history, 0, mask);
}

/// Ids that are left with all logits reported.
std::vector<TokenId> survivors(const std::vector<float>& logits, SamplingParams params) {
  params.post_sampling_probs = true;
  params.num_logprobs = static_cast<int32_t>(logits.size());
  std::vector<TokenId> ids;
  for (const auto& [id, logprob] : draw(logits, params).top) {
    if (logprob > -kInf) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

SamplingParams warm() {
  SamplingParams params;
  params.temperature = 1.0F;
  return params;
}

using Ids = std::vector<TokenId>;

TEST(Exact, GreedyTakesTheLowestIdOfATie) {
  EXPECT_EQ(draw({1, 5, 5, 2}, {}).id, 1);
  std::vector<float> wide(1000, 0.5F);
  EXPECT_EQ(draw(wide, {}).id, 0);
  wide[700] = wide[999] = 2.0F;
  EXPECT_EQ(draw(wide, {}).id, 700);
  SamplingParams one = warm();
  one.top_k = 1;
  EXPECT_EQ(draw({1, 5, 5, 2}, one).id, 1);
}

TEST(Exact, GreedySkipsFiltersButNotPenalties) {
  SamplingParams params;
  params.repetition_penalty = 10.0F;
  params.xtc_probability = 1.0F;
  params.top_n_sigma = 0.001F;
  EXPECT_EQ(draw({1, 5, 4, 2}, params, {}, {1}).id, 2);
}

TEST(Exact, TiesAreCutByLowestId) {
  SamplingParams params = warm();
  params.top_k = 2;
  EXPECT_EQ(survivors({1, 3, 3, 3}, params), (Ids{1, 2}));
  SamplingParams top_p = warm();
  top_p.top_p = 0.5F;
  EXPECT_EQ(survivors({0, 0, 0, 0}, top_p), (Ids{0, 1}));
  top_p.top_p = 0.0F;
  EXPECT_EQ(survivors({0, 0, 0, 0}, top_p), (Ids{0}));
  SamplingParams min_p = warm();
  min_p.min_p = 1.0F;
  EXPECT_EQ(survivors({1, 3, 3, 2}, min_p), (Ids{1, 2}));
}

TEST(Exact, SwitchedOffFiltersRemoveNothing) {
  SamplingParams params = warm();
  params.top_k = -1;
  params.typical_p = 0.0F;
  params.top_n_sigma = -1.0F;
  params.xtc_probability = 1.0F;
  params.xtc_threshold = 0.51F;
  EXPECT_EQ(survivors({1, 2, 3}, params), (Ids{0, 1, 2}));
  params.top_k = 3;
  EXPECT_EQ(survivors({1, 2, 3}, params), (Ids{0, 1, 2}));
  params.top_k = 99;
  EXPECT_EQ(survivors({1, 2, 3}, params), (Ids{0, 1, 2}));
}

TEST(Exact, EveryFilterLeavesATokenAndHonoursMinKeep) {
  for (int filter = 0; filter < 6; ++filter) {
    SamplingParams params = warm();
    if (filter == 0) params.top_p = 0.0F;
    if (filter == 1) params.min_p = 1.0F;
    if (filter == 2) params.typical_p = 1e-6F;
    if (filter == 3) params.top_n_sigma = 1e-6F;
    if (filter == 4) params.p_less = true, params.temperature = 0.1F;
    if (filter == 5) params.top_k = 2, params.top_p = 0.0F;
    EXPECT_EQ(survivors({0, 1, 2, 3, 4}, params).size(), 1U) << filter;
    params.min_keep = 3;
    EXPECT_EQ(survivors({0, 1, 2, 3, 4}, params).size(), 3U) << filter;
  }
}

TEST(Exact, NamedErrorForNaN) {
  for (const size_t at : {size_t{0}, size_t{20}, size_t{32}}) {
    std::vector<float> logits(33, 1.0F);
    logits[at] = kNaN;
    for (const float t : {0.0F, 1.0F}) {
      SamplingParams params;
      params.temperature = t;
      try {
        draw(logits, params);
        FAIL() << "a NaN was accepted";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::Internal);
        EXPECT_NE(e.message().find("token " + std::to_string(at)), std::string::npos)
            << e.message();
      }
    }
  }
}

TEST(Exact, InfinityLeavesOnlyInfinity) {
  SamplingParams params = warm();
  EXPECT_EQ(survivors({1, kInf, 2, kInf}, params), (Ids{1, 3}));
  params.logit_bias = {{2, kInf}};
  EXPECT_EQ(survivors({1, 5, 2, 3}, params), (Ids{2}));
  params.logit_bias = {{2, kInf}, {2, -kInf}};
  EXPECT_EQ(survivors({1, 5, kInf, 3}, params), (Ids{0, 1, 3}));
  EXPECT_EQ(draw({1, kInf, kInf}, {}).id, 1);
}

TEST(Exact, ForbiddingEverythingIsAnError) {
  SamplingParams params;
  params.logit_bias = {{0, -kInf}, {1, -kInf}};
  EXPECT_THROW(draw({1, 2}, params), Error);
  const std::vector<uint32_t> none = {0};
  EXPECT_THROW(draw({1, 2}, {}, {}, {}, none), Error);
}

TEST(Exact, MaskAndIgnoreEos) {
  const std::vector<uint32_t> mask = {0b0101};
  EXPECT_EQ(draw({1, 9, 3, 8}, {}, {}, {}, mask).id, 2);
  std::vector<float> wide(40, 0.0F);
  const std::vector<uint32_t> short_mask = {1};
  EXPECT_THROW(draw(wide, {}, {}, {}, short_mask), Error);
  SamplingParams params;
  params.ignore_eos = true;
  SamplerContext context;
  context.eos_ids = {1, 77, -5};
  EXPECT_EQ(draw({1, 9, 3}, params, context).id, 2);
}

TEST(Exact, PenaltiesByHand) {
  SamplingParams params;
  params.repetition_penalty = 2.0F;
  params.frequency_penalty = 0.5F;
  params.presence_penalty = 0.25F;
  params.post_sampling_probs = true;
  params.temperature = 1.0F;
  params.num_logprobs = 4;
  // 4/2 - 0.5*2 - 0.25 = 0.75, -1*2 - 0.5 - 0.25 = -2.75, the others stay.
  const auto token = draw({4, -1, 0.5F, 0}, params, {}, {0, 1, 0, 99, -3});
  EXPECT_EQ(token.top[0].first, 0);
  EXPECT_NEAR(token.top[0].second - token.top[1].second, 0.25, 1e-6);
  EXPECT_NEAR(token.top[0].second - token.top[3].second, 3.5, 1e-6);
  params.repeat_last_n = 1;
  EXPECT_EQ(draw({4, -1, 0.5F, 0}, params, {}, {0, 0, 1}).top[0].first, 0);
}

TEST(Exact, DryPenalizesTheContinuationOfARepetition) {
  SamplingParams params;
  params.dry_multiplier = 1.0F;
  params.dry_base = 2.0F;
  params.dry_allowed_length = 2;
  const std::vector<TokenId> history = {1, 2, 3, 4, 1, 2, 3};  // 4 would repeat a run of three
  const std::vector<float> row = {0, 0, 0, 0, 5, 3.5F};
  EXPECT_EQ(draw(row, params, {}, {1, 2, 3}).id, 4);
  EXPECT_NEAR(reference::penalized(row, params, {}, history)[4], 5 - 2, 1e-9);
  EXPECT_EQ(draw(row, params, {}, history).id, 5);
  SamplerContext breaker;
  breaker.dry_breakers[2] = {{}};
  EXPECT_EQ(draw(row, params, breaker, history).id, 4);
  params.dry_penalty_last_n = 4;
  EXPECT_EQ(draw(row, params, {}, history).id, 4);
}

TEST(Exact, LongRepetitionsStayFinite) {
  SamplingParams params = warm();
  params.dry_multiplier = 5.0F;
  const std::vector<TokenId> history(5000, 1);
  const auto token = draw({0, 1, 2}, params, {}, history);
  EXPECT_NE(token.id, 1);
}

}  // namespace
}  // namespace mlxcel::engine
