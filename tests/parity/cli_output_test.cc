// What the program prints around the text: summary, profile, notes, inspect, arch, version.
#include "base/json.h"
#include "cli_fixture.h"

namespace mlxcel {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;

class CliOutput : public CliTest {
 protected:
  ProcessResult generate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"generate", "-m",   story(), "--no-chat-template",
                                          "-p",       "Once", "-n",    "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlxcel(arguments);
  }
};

TEST_F(CliOutput, SummaryEndsStandardOutput) {
  const ProcessResult r = generate({});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.out, ContainsRegex("\n\n\\[Generated 20 tokens in [0-9]+\\.[0-9][0-9]s = "
                                   "[0-9]+\\.[0-9][0-9] tok/s\\]\n$"));
  EXPECT_THAT(r.err, ContainsRegex("Runtime device: cpu"));
  EXPECT_THAT(r.err, HasSubstr("Loading model from " + story()));
  EXPECT_THAT(r.err, ContainsRegex("Model loaded in [0-9]+\\.[0-9][0-9]s\\."));
}

TEST_F(CliOutput, ProfileReplacesTheSummary) {
  const ProcessResult r = generate({"--profile"});
  EXPECT_THAT(r.out, ContainsRegex("\n\\[Profile Results\\]\nPrompt tokens: [0-9]+\n"
                                   "Generated tokens: 20\n"
                                   "Prefill: [0-9.]+ ms \\([0-9.]+ tok/s\\)\n"
                                   "Decode: [0-9.]+ ms \\([0-9.]+ tok/s\\)\n$"));
  EXPECT_THAT(r.out, Not(HasSubstr("[Generated")));
}

TEST_F(CliOutput, DeviceNoteOnlyWhenAsked) {
  EXPECT_THAT(generate({}).err, Not(HasSubstr("GPU")));
  options_.env["MLXCEL_DEVICE"] = "gpu";
  EXPECT_THAT(generate({}).err, HasSubstr("GPU"));
}

TEST_F(CliOutput, TimeToFirstTokenLine) {
  options_.env["MLXCEL_PROFILE_TTFT"] = "1";
  EXPECT_THAT(generate({}).err, ContainsRegex("\\[TTFT\\] setup=.*build=.*sample=0 eval=.*post="));
}

TEST_F(CliOutput, InspectText) {
  const ProcessResult r = mlxcel({"inspect", "-m", story()});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("=== Memory Estimate ===\n")) << r.out;
  EXPECT_THAT(r.out, HasSubstr("5 layers x 4 kv heads x 8"));
  EXPECT_THAT(r.out, HasSubstr("FITS: "));
  options_.env["MLXCEL_MEMORY_LIMIT"] = "1K";
  const ProcessResult small = mlxcel({"inspect", "-m", story()});
  EXPECT_EQ(small.exit_code, 0) << "inspect reports, it does not judge";
  EXPECT_THAT(small.out, HasSubstr("DOES NOT FIT: "));
  EXPECT_THAT(small.out, HasSubstr("Note: "));
}

TEST_F(CliOutput, InspectJson) {
  const ProcessResult r = mlxcel({"inspect", "--json", "-m", story(), "-n", "512"});
  const Json json = Json::parse(r.out).value();
  EXPECT_EQ(json.find("model_type")->as_string(), "llama");
  EXPECT_EQ(json.find("family")->as_string(), "llama");
  EXPECT_EQ(json.find("kv_bytes_total")->as_int(), 5 * 2 * 32 * 2 * 512);
  EXPECT_EQ(json.find("inputs")->find("max_tokens")->as_int(), 512);
  EXPECT_NE(json.find("mlxcel_version"), nullptr);
  EXPECT_TRUE(json.find("fits")->as_bool());
}

TEST_F(CliOutput, InspectAgreesAcrossForms) {
  const std::string gguf = testing::shared_path("stories260K/stories260K.gguf");
  if (gguf.empty()) GTEST_SKIP() << "shared data is not here";
  const Json a = Json::parse(mlxcel({"inspect", "--json", "-m", gguf}).out).value();
  const Json b =
      Json::parse(mlxcel({"inspect", "--json", "-m", testing::shared_path("stories260K/hf")}).out)
          .value();
  for (const char* key : {"kv_bytes_total", "weights_bytes", "activation_bytes"}) {
    EXPECT_EQ(a.find(key)->as_int(), b.find(key)->as_int()) << key;
  }
}

TEST_F(CliOutput, ArchitecturesAndVersion) {
  const ProcessResult text = mlxcel({"arch"});
  EXPECT_TRUE(text.out.starts_with("Supported Model Architectures:\n"));
  EXPECT_THAT(text.out, HasSubstr("\n- "));
  const Json json = Json::parse(mlxcel({"supported", "--json"}).out).value();
  EXPECT_GE(json.find("families")->size(), 3U);
  const ProcessResult version = mlxcel({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  for (const char* part : {"mlxcel ", "commit: ", "build: ", "backends: cpu", "cpu: "}) {
    EXPECT_THAT(version.out, HasSubstr(part));
  }
}

TEST_F(CliOutput, RemoveAsksFirst) {
  std::filesystem::create_directories(home_.file("store/o"));
  std::filesystem::copy(story(), home_.file("store/o/n"));
  EXPECT_EQ(mlxcel({"ls", "-q"}).out, "o/n\n");
  options_.input = "n\n";
  EXPECT_EQ(mlxcel({"rm", "o/n"}).exit_code, 1);
  EXPECT_EQ(mlxcel({"ls", "-q"}).out, "o/n\n");
  options_.input = "y\n";
  EXPECT_EQ(mlxcel({"rm", "o/n"}).exit_code, 0);
  EXPECT_EQ(mlxcel({"ls", "-q"}).out, "");
}

TEST_F(CliOutput, ModelFromTheStoreByName) {
  std::filesystem::create_directories(home_.file("store/mlx-community"));
  std::filesystem::copy(story(), home_.file("store/mlx-community/story"));
  const ProcessResult r =
      mlxcel({"gen", "-m", "story", "--no-chat-template", "-p", "Once", "-n", "3"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("'mlx-community/story'"));
}

}  // namespace
}  // namespace mlxcel
