// Parameter checks, the state before the first draw, and the facts taken from a vocabulary.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "engine/sampler.h"

namespace mlxcel::engine {
namespace {

struct Bad {
  const char* name;
  std::function<void(SamplingParams&)> spoil;
};

TEST(Validate, NamesTheParameter) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const std::vector<Bad> cases = {
      {"temperature", [](SamplingParams& p) { p.temperature = -0.1F; }},
      {"temperature", [=](SamplingParams& p) { p.temperature = nan; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 1.1F; }},
      {"min_p", [](SamplingParams& p) { p.min_p = -0.1F; }},
      {"typical_p", [](SamplingParams& p) { p.typical_p = 2.0F; }},
      {"top_n_sigma", [=](SamplingParams& p) { p.top_n_sigma = inf; }},
      {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 0.0F; }},
      {"frequency_penalty", [=](SamplingParams& p) { p.frequency_penalty = inf; }},
      {"presence_penalty", [=](SamplingParams& p) { p.presence_penalty = nan; }},
      {"repeat_last_n", [](SamplingParams& p) { p.repeat_last_n = -2; }},
      {"dry_multiplier", [](SamplingParams& p) { p.dry_multiplier = -1.0F; }},
      {"dry_base", [=](SamplingParams& p) { p.dry_base = inf; }},
      {"dry_allowed_length", [](SamplingParams& p) { p.dry_allowed_length = -1; }},
      {"dry_penalty_last_n", [](SamplingParams& p) { p.dry_penalty_last_n = -2; }},
      {"dry_sequence_breakers", [](SamplingParams& p) { p.dry_sequence_breakers = {""}; }},
      {"xtc_probability", [](SamplingParams& p) { p.xtc_probability = 1.5F; }},
      {"xtc_threshold", [](SamplingParams& p) { p.xtc_threshold = -0.5F; }},
      {"dynatemp_range", [](SamplingParams& p) { p.dynatemp_range = -1.0F; }},
      {"dynatemp_exponent", [=](SamplingParams& p) { p.dynatemp_exponent = nan; }},
      {"mirostat", [](SamplingParams& p) { p.mirostat = 3; }},
      {"mirostat_tau", [](SamplingParams& p) { p.mirostat_tau = -1.0F; }},
      {"mirostat_eta", [=](SamplingParams& p) { p.mirostat_eta = nan; }},
      {"adaptive_target", [](SamplingParams& p) { p.adaptive_target = 1.5F; }},
      {"adaptive_decay", [](SamplingParams& p) { p.adaptive_decay = -0.1F; }},
      {"min_keep", [](SamplingParams& p) { p.min_keep = -1; }},
      {"num_logprobs", [](SamplingParams& p) { p.num_logprobs = -1; }},
      {"logit_bias", [](SamplingParams& p) { p.logit_bias = {{-1, 0.0F}}; }},
      {"logit_bias", [=](SamplingParams& p) { p.logit_bias = {{1, nan}}; }},
  };
  EXPECT_NO_THROW(validate(SamplingParams{}));
  for (const Bad& bad : cases) {
    SamplingParams params;
    bad.spoil(params);
    try {
      validate(params);
      ADD_FAILURE() << bad.name << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      EXPECT_NE(e.message().find(bad.name), std::string::npos) << e.message();
    }
  }
}

TEST(InitState, UsesTheSeedOrDrawsOne) {
  SamplingParams params;
  params.seed = 77;
  SamplerState state;
  state.counter = 9;
  init_state(params, state);
  EXPECT_EQ(state.seed, 77U);
  EXPECT_EQ(state.counter, 0U);
  params.seed.reset();
  SamplerState a, b;
  init_state(params, a);
  init_state(params, b);
  EXPECT_NE(a.seed, b.seed);
}

/// One token for each byte of "abc\n:", then "a\n", "x<", "</".
class TinyTokenizer final : public text::Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view utf8, const text::EncodeOptions&) const override {
    std::vector<TokenId> ids;
    for (const char c : utf8) {
      for (size_t i = 0; i < 7; ++i) {
        if (pieces_[i][0] == c) ids.push_back(static_cast<TokenId>(i));
      }
    }
    return ids;
  }
  std::string decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string_view bytes(TokenId id) const override { return pieces_[static_cast<size_t>(id)]; }
  std::string_view token(TokenId id) const override { return bytes(id); }
  std::optional<TokenId> id_of(std::string_view) const override { return {}; }
  bool is_special(TokenId) const override { return false; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::optional<TokenId> bos_id() const override { return {}; }
  std::optional<TokenId> eos_id() const override { return {}; }
  bool strips_leading_space() const override { return false; }

 private:
  std::vector<std::string> pieces_ = {"a", "b", "/", "\n", ":", "<", "s", "a\n", "x<", "</"};
};

TEST(Context, FindsSequenceBreakers) {
  const TinyTokenizer tokenizer;
  SamplingParams params;
  params.dry_multiplier = 1.0F;
  params.dry_sequence_breakers = {"\n", "</s"};
  const std::vector<TokenId> eos = {1};
  const auto context = make_sampler_context(tokenizer, params, eos);
  using Tails = std::vector<std::vector<TokenId>>;
  EXPECT_EQ(context.vocab_size, 10);
  EXPECT_EQ(context.eos_ids, eos);
  EXPECT_EQ(context.dry_breakers.at(3), (Tails{{}}));      // the newline itself
  EXPECT_EQ(context.dry_breakers.at(7), (Tails{{}}));      // a token that contains it
  EXPECT_EQ(context.dry_breakers.at(5), (Tails{{2, 6}}));  // "<" then "/", "s"
  EXPECT_EQ(context.dry_breakers.at(8), (Tails{{2, 6}}));  // "x<" ends with the head
  EXPECT_EQ(context.dry_breakers.at(9), (Tails{{6}}));     // "</" then "s"
  EXPECT_EQ(context.dry_breakers.count(4), 0U);
  params.dry_multiplier = 0.0F;
  EXPECT_TRUE(make_sampler_context(tokenizer, params, eos).dry_breakers.empty());
  params.xtc_probability = 0.5F;
  EXPECT_EQ(make_sampler_context(tokenizer, params, eos).xtc_protected,
            (std::vector<TokenId>{1, 3}));
  const std::vector<TokenId> bad = {-1};
  EXPECT_THROW(make_sampler_context(tokenizer, params, bad), Error);
}

}  // namespace
}  // namespace mlxcel::engine
