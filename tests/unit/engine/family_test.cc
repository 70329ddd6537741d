// Trained and seeded checkpoints through the engine: the published text, and the same bits alone
// and in batches, whole and in chunks, cold and cached, preempted or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/register.h"
#include "base/file.h"
#include "engine/kv_layout.h"
#include "golden_models.h"
#include "harness.h"
#include "testing/device.h"
#include "testing/paths.h"

namespace mlxcel::engine::testing {
namespace {

constexpr size_t kSequences = 16;
constexpr int32_t kTokens = 12;

EngineOptions options_for(int32_t batch) {
  EngineOptions options;
  options.max_batch = batch;
  options.max_queue_depth = 64;
  options.max_batch_prefill = 16;
  options.prefix_cache = false;
  options.prefix_cache_min_tokens = 1;
  options.kv_budget_bytes = int64_t{256} << 20;
  return options;
}

class FamilyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend::register_all();
    model = load_model(GetParam());
    if (!model) GTEST_SKIP() << GetParam() << " is not there";
  }
  // Prompts of 1 to 121 tokens; every other one drawn with a seed of its own. The log-probability
  // of each token comes along: equal floats show equal logits.
  std::vector<Request> requests(size_t count) const {
    std::vector<Request> out;
    const auto vocab = static_cast<int32_t>(model->spec().vocab_size);
    for (size_t i = 0; i < count; ++i) {
      auto prompt = random_prompt(1 + i * 8, i, vocab);
      out.push_back(i % 2 == 0 ? greedy(std::move(prompt), kTokens)
                               : seeded(std::move(prompt), kTokens, i));
    }
    return out;
  }
  void expect_same(const EngineOptions& options, size_t count, const std::vector<Outcome>& expected,
                   int rounds = 1) {
    auto engine = Engine::start(model, nullptr, options);
    for (int round = 0; round < rounds; ++round) {
      const auto out = run_all(*engine, requests(count));
      ASSERT_EQ(out.size(), count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(out[i].done) << out[i].error->what();
        EXPECT_EQ(out[i].ids, expected[i].ids) << "sequence " << i << " of " << count;
        EXPECT_EQ(out[i].logprobs, expected[i].logprobs) << "sequence " << i << " of " << count;
      }
    }
    engine->check();
  }
  std::shared_ptr<const nn::CausalLm> model;
};

TEST_P(FamilyTest, OutputDoesNotDependOnLoad) {
  std::vector<Outcome> alone;
  {
    auto engine = Engine::start(model, nullptr, options_for(1));
    for (Request& r : requests(kSequences)) alone.push_back(run_one(*engine, std::move(r)));
  }
  for (const int32_t batch : {2, 3, 7, 16}) {
    SCOPED_TRACE(batch);
    expect_same(options_for(batch), static_cast<size_t>(batch), alone);
  }
  for (const int32_t chunk : {0, 1, 17, 64, 512}) {
    SCOPED_TRACE(chunk);
    EngineOptions options = options_for(4);
    options.prefill_chunk_tokens = chunk;
    expect_same(options, kSequences, alone);
  }
  {
    SCOPED_TRACE("cached");
    EngineOptions options = options_for(4);
    options.prefix_cache = true;
    expect_same(options, kSequences, alone, 2);
    options.block_tokens = 8;
    expect_same(options, kSequences, alone, 2);
  }
  {
    SCOPED_TRACE("preempted");
    EngineOptions options = options_for(16);
    options.context_tokens = 160;
    options.admission_watermark = 0;
    const KvLayout layout = make_kv_layout(model->spec().caches, 32, options.kv_type);
    options.kv_budget_bytes = 2 * layout.sequence_bytes(160, 160);
    expect_same(options, kSequences, alone);
  }
}

// Logits of whole texts, in pieces of any length, are the same floats.
TEST_P(FamilyTest, ScoresDoNotDependOnTheCut) {
  auto engine = Engine::start(model, nullptr, options_for(2));
  const auto tokens = random_prompt(150, 3, static_cast<int32_t>(model->spec().vocab_size));
  const Tensor whole = engine->score(tokens, 150).value();
  for (const int32_t chunk : {1, 17, 64}) {
    const Tensor pieces = engine->score(tokens, chunk).value();
    EXPECT_TRUE(std::ranges::equal(whole.host<float>(), pieces.host<float>())) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FamilyTest, ::testing::ValuesIn(model_names()));

// The text that the trained model's author published, through the engine and its tokenizer.
TEST(Stories, GreedyTextIsThePublishedOne) {
  backend::register_all();
  const std::string root = stories_folder();
  if (root.empty()) GTEST_SKIP();
  const Json golden = Json::parse(read_file(root + "/golden.json")).value();
  const std::shared_ptr<const nn::CausalLm> model = load_model("stories260K/hf");
  const std::shared_ptr<const text::Tokenizer> tokenizer =
      text::load_tokenizer(root + "/hf").value();
  auto engine = Engine::start(model, tokenizer, options_for(4));
  std::vector<Request> requests;
  std::vector<std::vector<TokenId>> expected;
  for (const Json& c : golden.find("cases")->as_array()) {
    const auto ids = [](const Json& list) {
      std::vector<TokenId> out;
      for (const Json& id : list.as_array()) out.push_back(static_cast<TokenId>(id.as_int()));
      return out;
    };
    expected.push_back(ids(*c.find("hf")->find("generated")));
    requests.push_back(
        greedy(ids(*c.find("prompt_ids")), static_cast<int32_t>(expected.back().size())));
  }
  ASSERT_FALSE(requests.empty());
  const auto out = run_all(*engine, requests);
  for (size_t i = 0; i < out.size(); ++i) {
    if (mlxcel::testing::exact_activations()) {
      EXPECT_EQ(out[i].ids, expected[i]);
    }
    EXPECT_EQ(out[i].text, out[i].streamed + out[i].done->text);
    EXPECT_TRUE(tokenizer->decode(requests[i].prompt).empty() || !out[i].text.empty());
  }
}

}  // namespace
}  // namespace mlxcel::engine::testing
