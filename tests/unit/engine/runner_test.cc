// The step API: pieces, decoding, verification with unwinding, over ragged batches.
#include "engine/runner.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness.h"

namespace mlxcel::engine::testing {
namespace {

using Logits = RowInput::Logits;

class RunnerTest : public ::testing::TestWithParam<int> {
 protected:
  static FakeConfig config() {
    switch (GetParam()) {
      case 0:
        return FakeConfig{};
      case 1:
        return windowed_config(5);
      default:
        return hybrid_config();
    }
  }
  RunnerTest()
      : model(std::make_shared<FakeLm>(config())),
        runner(model, make_kv_layout(model->spec().caches, 4, DType::F32),
               {.budget_bytes = 1 << 20, .num_state_rows = 4}, false) {}

  // Runs one row to the end and keeps everything.
  StepOutput step(CacheAllocation& a, std::span<const TokenId> tokens, Logits logits) {
    EXPECT_TRUE(runner.cache().reserve(a, static_cast<int32_t>(tokens.size())));
    const RowInput row{.cache = &a, .tokens = tokens, .logits = logits};
    runner.launch({&row, 1});
    StepOutput out = runner.finish();
    runner.commit(0, static_cast<int32_t>(tokens.size()));
    return out;
  }
  static void expect_row(const StepOutput& out, size_t row, const std::vector<float>& expected) {
    const auto all = out.logits.host<float>();
    for (size_t v = 0; v < expected.size(); ++v) {
      ASSERT_EQ(all[row * expected.size() + v], expected[v]);
    }
  }

  std::shared_ptr<FakeLm> model;
  Runner runner;
};

TEST_P(RunnerTest, PiecesAndDecodingGiveTheSameBits) {
  const auto tokens = random_prompt(30, 4);
  const auto reference = model->reference(tokens);
  for (const size_t piece : {1U, 3U, 8U, 30U}) {
    CacheAllocation a;
    ASSERT_TRUE(runner.cache().open(a, 100));
    for (size_t at = 0; at < tokens.size(); at += piece) {
      const size_t n = std::min(piece, tokens.size() - at);
      const StepOutput out = step(a, std::span(tokens).subspan(at, n), Logits::All);
      for (size_t i = 0; i < n; ++i) expect_row(out, i, reference[at + i]);
    }
    runner.cache().close(a);
  }
  EXPECT_EQ(runner.cache().live_bytes(), 0);
}

TEST_P(RunnerTest, OneRaggedStepMixesPrefillDecodeAndVerification) {
  const auto one = random_prompt(17, 1);
  const auto two = random_prompt(9, 2);
  const auto three = random_prompt(12, 3);
  std::vector<CacheAllocation> a(3);
  for (CacheAllocation& c : a) ASSERT_TRUE(runner.cache().open(c, 100));
  step(a[1], std::span(two).first(8), Logits::None);
  step(a[2], std::span(three).first(7), Logits::None);
  ASSERT_TRUE(runner.cache().reserve(a[0], 17));
  ASSERT_TRUE(runner.cache().reserve(a[1], 1));
  ASSERT_TRUE(runner.cache().reserve(a[2], 5));
  const std::vector<RowInput> rows = {
      {.cache = &a[0], .tokens = one, .logits = Logits::Last},
      {.cache = &a[1], .tokens = std::span(two).subspan(8), .logits = Logits::Last},
      {.cache = &a[2], .tokens = std::span(three).subspan(7), .logits = Logits::All}};
  runner.launch(rows);
  const StepOutput out = runner.finish();
  EXPECT_EQ(out.first_logits, (std::vector<int32_t>{0, 1, 2}));
  expect_row(out, 0, model->reference(one).back());
  expect_row(out, 1, model->reference(two).back());
  const auto expected = model->reference(three);
  for (size_t i = 0; i < 5; ++i) expect_row(out, 2 + i, expected[7 + i]);
}

// A draft block of which a part is accepted: what follows equals plain decoding, bit for bit.
TEST_P(RunnerTest, VerificationUnwindsToAnyLength) {
  const auto tokens = random_prompt(24, 8);
  for (int32_t kept = 0; kept <= 6; ++kept) {
    CacheAllocation a;
    ASSERT_TRUE(runner.cache().open(a, 100));
    step(a, std::span(tokens).first(11), Logits::None);
    std::vector<TokenId> draft(tokens.begin() + 11, tokens.begin() + 11 + kept);
    while (draft.size() < 6) draft.push_back(63);  // rejected proposals
    ASSERT_TRUE(runner.cache().reserve(a, 6));
    const RowInput row{.cache = &a, .tokens = draft, .logits = Logits::All, .may_unwind = true};
    runner.launch({&row, 1});
    const StepOutput out = runner.finish();
    const auto reference = model->reference(tokens);
    for (int32_t i = 0; i < kept; ++i) {
      expect_row(out, static_cast<size_t>(i), reference[static_cast<size_t>(11 + i)]);
    }
    runner.commit(0, kept);
    EXPECT_EQ(a.num_tokens, 11 + kept);
    for (size_t at = static_cast<size_t>(11 + kept); at < tokens.size(); ++at) {
      expect_row(step(a, std::span(tokens).subspan(at, 1), Logits::Last), 0, reference[at]);
    }
    runner.cache().close(a);
  }
  EXPECT_EQ(runner.cache().live_bytes(), 0);
}

TEST_P(RunnerTest, AFailedForwardLeavesARunnerThatWorks) {
  const auto tokens = random_prompt(6, 1);
  CacheAllocation a;
  ASSERT_TRUE(runner.cache().open(a, 100));
  ASSERT_TRUE(runner.cache().reserve(a, 6));
  model->before_forward = [](const nn::Batch&) { throw std::runtime_error("the device is gone"); };
  const RowInput row{.cache = &a, .tokens = tokens, .logits = Logits::Last};
  runner.launch({&row, 1});
  try {
    runner.finish();
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "inference backend error: the device is gone");
  }
  runner.commit(0, 0);
  runner.cache().close(a);
  model->before_forward = nullptr;
  ASSERT_TRUE(runner.cache().open(a, 100));
  expect_row(step(a, tokens, Logits::Last), 0, model->reference(tokens).back());
}

INSTANTIATE_TEST_SUITE_P(Geometry, RunnerTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace mlxcel::engine::testing
