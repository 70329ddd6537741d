// The text that the program prints against published and float64 references.
#include <fmt/core.h>

#include "base/json.h"
#include "cli_fixture.h"

namespace mlxcel {
namespace {

class GoldenText : public CliTest {
 protected:
  std::string generate(const std::string& model, const std::string& prompt, int tokens) const {
    return answer({"generate", "-m", model, "--no-chat-template", "-p", prompt, "-n",
                   std::to_string(tokens)});
  }
  /// What the model's author published.
  static std::string published() {
    std::string text = read_file(testing::shared_path("stories260K/golden.txt"));
    text.erase(0, text.find("---\n") + 4);
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
};

TEST_F(GoldenText, FourBitFormFollowsTheFloat64Reference) {
  const Json golden =
      Json::parse(read_file(testing::data_path("stories260K-4bit/golden.json"))).value();
  for (const Json& c : golden.as_array()) {
    const std::string prompt = c.find("prompt")->as_string();
    const auto tokens = static_cast<int>(c.find("generated")->size());
    EXPECT_EQ(generate(story(), prompt, tokens), c.find("text")->as_string()) << prompt;
  }
}

TEST_F(GoldenText, SafetensorsAndGgufGiveThePublishedText) {
  if (testing::shared_path("stories260K").empty()) GTEST_SKIP() << "shared data is not here";
  EXPECT_EQ(generate(testing::shared_path("stories260K/hf"), "", 256), published());
  EXPECT_EQ(generate(testing::shared_path("stories260K/stories260K.gguf"), "", 256), published());
}

TEST_F(GoldenText, GeneratedIdsAreTheReferences) {
  options_.env["MLXCEL_PRINT_TOKEN_IDS"] = "1";
  const Json golden =
      Json::parse(read_file(testing::data_path("stories260K-4bit/golden.json"))).value();
  const Json& c = golden.as_array()[1];
  const testing::ProcessResult r =
      mlxcel({"generate", "-m", story(), "--no-chat-template", "-p", c.find("prompt")->as_string(),
              "-n", std::to_string(c.find("generated")->size())});
  const auto list = [](const Json& ids) {
    std::string out;
    for (const Json& id : ids.as_array()) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", id.as_int());
    }
    return fmt::format("ids ({}): {}]", ids.size(), out);
  };
  EXPECT_THAT(r.err, ::testing::HasSubstr("[prompt " + list(*c.find("prompt_ids"))));
  EXPECT_THAT(r.err, ::testing::HasSubstr("[token " + list(*c.find("generated"))));
}

TEST_F(GoldenText, RunAndGenerateSayTheSame) {
  for (const char* prompt : {"Once upon a time", "Lily and Max", "The cat"}) {
    const std::string generated = generate(story(), prompt, 100);
    EXPECT_EQ(answer({"run", story(), "--no-chat-template", "-p", prompt, "-n", "100"}), generated);
    EXPECT_FALSE(generated.empty());
  }
}

TEST_F(GoldenText, ThreadsDoNotChangeTheText) {
  options_.env["MLXCEL_THREADS"] = "1";
  const std::string one = generate(story(), "Once", 120);
  options_.env["MLXCEL_THREADS"] = "3";
  EXPECT_EQ(generate(story(), "Once", 120), one);
}

TEST_F(GoldenText, SeedsRepeatAndDiffer) {
  const auto sampled = [&](const char* command, const char* seed) {
    std::vector<std::string> arguments = {command};
    if (std::string(command) == "generate") arguments.emplace_back("-m");
    for (const char* a : {"--temp", "1.0", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-n",
                          "60", "--no-chat-template", "-p", "Once", "--seed"}) {
      if (arguments.size() == (std::string(command) == "generate" ? 2U : 1U)) {
        arguments.push_back(story());
      }
      arguments.emplace_back(a);
    }
    arguments.emplace_back(seed);
    return answer(arguments);
  };
  const std::string a = sampled("generate", "7");
  EXPECT_EQ(sampled("generate", "7"), a);
  EXPECT_EQ(sampled("run", "7"), a);
  EXPECT_NE(sampled("generate", "8"), a);
}

TEST_F(GoldenText, StopStringsCutTheText) {
  const std::string text = answer({"generate", "-m", story(), "--no-chat-template", "-p", "", "-n",
                                   "200", "--stop", "in the sky", "--stop", " big, red"});
  EXPECT_EQ(
      text,
      "Once upon a time, there was a little girl named Lily. She loved to play outside in the "
      "sunshine. One day, she found a");
}

}  // namespace
}  // namespace mlxcel
