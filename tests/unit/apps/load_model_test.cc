// What is read from a checkpoint besides its weights.
#include "apps/load_model.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "apps/chat_format.h"
#include "base/error.h"
#include "testing/env.h"
#include "testing/paths.h"

namespace mlxcel::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

io::Config config(const char* json) {
  return io::Config::from_json(Json::parse(json).value(), "test");
}

TEST(GenerationDefaults, OnlyWhatTheFileSays) {
  engine::SamplingParams base;
  base.temperature = 0.8F;
  base.top_k = 40;
  const auto d = read_generation_defaults(config(R"({"temperature": 0.6, "top_p": 0.95})"));
  const engine::SamplingParams p = d.over(base);
  EXPECT_FLOAT_EQ(p.temperature, 0.6F);
  EXPECT_FLOAT_EQ(p.top_p, 0.95F);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_FALSE(read_generation_defaults(config("{}")).temperature);
  EXPECT_FALSE(
      read_generation_defaults(config(R"({"do_sample": false, "temperature": 0.6})")).temperature);
  EXPECT_FALSE(read_generation_defaults(config(R"({"temperature": null})")).temperature);
  EXPECT_THROW(read_generation_defaults(config(R"({"temperature": "hot"})")), Error);
}

class ChatFormatTest : public ::testing::Test {
 protected:
  ChatFormatTest() {
    namespace fs = std::filesystem;
    fs::copy(testing::data_path("stories260K-4bit"), dir_.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  serve::ChatFormat read() const { return load_without_weights("m", {dir_.path(), ""}).chat; }
  testing::TempDir dir_;
};

TEST_F(ChatFormatTest, NoTemplate) {
  const serve::ChatFormat f = read();
  EXPECT_EQ(f.template_source, "");
  EXPECT_EQ(f.bos_token, "<s>");
  EXPECT_EQ(f.eos_token, "</s>");
  EXPECT_EQ(f.unk_token, "<unk>");
  EXPECT_EQ(f.pad_token, "");
}

TEST_F(ChatFormatTest, SidecarThenConfigThenProcessor) {
  dir_.write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(read().template_source, "from json");
  dir_.write("tokenizer_config.json",
             R"({"chat_template": "from config", "bos_token": {"content": "<b>"}})");
  EXPECT_EQ(read().template_source, "from config");
  EXPECT_EQ(read().bos_token, "<b>");
  dir_.write("chat_template.jinja", "from sidecar");
  EXPECT_EQ(read().template_source, "from sidecar");
}

TEST_F(ChatFormatTest, NamedTemplates) {
  dir_.write("tokenizer_config.json",
             R"({"chat_template": [{"name": "tool_use", "template": "t"},
                                   {"name": "default", "template": "d"}]})");
  EXPECT_EQ(read().template_source, "d");
  dir_.write("tokenizer_config.json", R"({"chat_template": [{"name": "x", "template": "t"}]})");
  EXPECT_THROW(read(), Error);
  dir_.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THROW(read(), Error);
}

TEST_F(ChatFormatTest, EndOfTextIds) {
  const LoadedChatModel m = load_without_weights("m", {dir_.path(), ""});
  EXPECT_THAT(m.eos_ids, ::testing::Contains(2));
  EXPECT_EQ(m.tokenizer->bos_id(), 1);
}

TEST(GgufVocab, AllKeysOfAPublishedVocabulary) {
  const std::string path = testing::shared_path("stories260K/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "shared data is not here";
  const auto file = io::open_checkpoint(path).gguf;
  const text::GgufVocab vocab = read_gguf_vocab(*file);
  EXPECT_EQ(vocab.model, "llama");
  EXPECT_EQ(vocab.tokens.size(), 512U);
  EXPECT_EQ(vocab.scores.size(), 512U);
  EXPECT_EQ(vocab.token_types.size(), 512U);
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
  EXPECT_EQ(vocab.unk, 0);
}

TEST(Device, NamesAreChecked) {
  const auto choose = [](const char* device) {
    const testing::ScopedEnv env("MLXCEL_DEVICE", device);
    ::testing::internal::CaptureStderr();
    try {
      choose_device();
    } catch (const Error& e) {
      ::testing::internal::GetCapturedStderr();
      return std::string("error: ") + e.what();
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(choose("cpu"), HasSubstr("Runtime device: cpu"));
  EXPECT_THAT(choose("gpu"), HasSubstr("running on the CPU"));
  EXPECT_THAT(choose("metal"), HasSubstr("error: MLXCEL_DEVICE=metal"));
  EXPECT_THAT(choose("tpu"), HasSubstr("error: MLXCEL_DEVICE: unknown device 'tpu'"));
}

}  // namespace
}  // namespace mlxcel::apps
