// What a client learns before the first token, and how the text of a continuation begins.
#include <gmock/gmock.h>

#include <algorithm>

#include "harness.h"

namespace mlxcel::engine {
namespace {

using namespace testing;

TEST(Progress, ReportsAdmissionAndEachPieceOfThePrompt) {
  EngineOptions options = test_options(1);
  options.prefill_chunk_tokens = 8;
  const auto engine =
      Engine::start(std::make_shared<FakeLm>(), plain_tokenizer(), std::move(options));
  Request request = greedy(random_prompt(20, 1), 2);
  request.report_progress = true;
  const auto processed = [](const Outcome& outcome) {
    std::vector<int32_t> counts;
    for (const ProgressEvent& p : outcome.progress) counts.push_back(p.num_processed);
    return counts;
  };
  const Outcome cold = run_one(*engine, request);
  EXPECT_THAT(processed(cold), ::testing::ElementsAre(0, 8, 16, 20));
  EXPECT_TRUE(std::ranges::all_of(cold.progress, [](const ProgressEvent& p) {
    return p.num_prompt == 20 && p.num_cached == 0 && p.queue_ms >= 0 && p.prefill_ms >= 0;
  }));
  const Outcome warm = run_one(*engine, request);
  ASSERT_FALSE(warm.progress.empty());
  EXPECT_GT(warm.progress[0].num_cached, 0);
  EXPECT_EQ(warm.progress[0].num_processed, warm.progress[0].num_cached);
  EXPECT_EQ(warm.progress.back().num_processed, 20);
  EXPECT_EQ(warm.ids, cold.ids);
}

TEST(Progress, IsSilentUnlessAskedFor) {
  const auto engine = Engine::start(std::make_shared<FakeLm>(), plain_tokenizer(), test_options(1));
  EXPECT_TRUE(run_one(*engine, greedy(random_prompt(20, 1), 2)).progress.empty());
}

/// Drops the space that the first token of a text begins with, as SentencePiece's decoders do.
class StrippingTokenizer final : public text::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view, const text::EncodeOptions&) const override {
    return {};
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string out;
    for (const TokenId id : ids) out += bytes(id);
    return out.substr(std::min<size_t>(out.size(), 1));
  }
  std::string_view bytes(TokenId) const override { return " w"; }
  std::string_view token(TokenId) const override { return "\u2581w"; }
  std::optional<TokenId> id_of(std::string_view) const override { return std::nullopt; }
  bool is_special(TokenId) const override { return false; }
  int32_t vocab_size() const override { return 64; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }
  bool strips_leading_space() const override { return true; }
};

TEST(ContinuedText, KeepsTheSpaceOfItsFirstToken) {
  const auto engine = Engine::start(std::make_shared<FakeLm>(),
                                    std::make_shared<StrippingTokenizer>(), test_options(1));
  Request request = greedy({1, 2, 3}, 2);
  EXPECT_EQ(run_one(*engine, request).text, "w w");
  request.continues_text = true;
  EXPECT_EQ(run_one(*engine, request).text, " w w");
}

}  // namespace
}  // namespace mlxcel::engine
