// Bad input through the real program: a named error, a code other than 0, never a crash.
#include <csignal>
#include <fstream>

#include "cli_fixture.h"

namespace mlxcel {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CliErrors : public CliTest {
 protected:
  std::string generate_error(const std::string& model, const std::string& prompt = "Once") const {
    return error({"generate", "-m", model, "--no-chat-template", "-p", prompt, "-n", "4"});
  }
  std::string with_config(const std::string& from, const std::string& to) {
    const std::string dir = story_copy("model" + std::to_string(counter_++));
    std::string config = read_file(dir + "/config.json");
    const size_t at = config.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    config.replace(at, from.size(), to);
    fs::permissions(dir + "/config.json", fs::perms::owner_all);
    std::ofstream(dir + "/config.json") << config;
    return dir;
  }
  int counter_ = 0;
};

TEST_F(CliErrors, ModelNames) {
  EXPECT_THAT(generate_error("/no/such/folder"), HasSubstr("/no/such/folder"));
  EXPECT_THAT(generate_error("owner/name"), HasSubstr("owner/name"));
  EXPECT_THAT(generate_error("bare-name"), HasSubstr("mlx-community/bare-name"));
  EXPECT_THAT(generate_error(home_.path()), HasSubstr("error: "));
  EXPECT_THAT(error({"generate", "-p", "x"}), HasSubstr("--model"));
  EXPECT_THAT(error({"generate", "-m", story(), "--revision", "v1", "-p", "x"}),
              HasSubstr("--revision"));
}

TEST_F(CliErrors, Prompts) {
  EXPECT_THAT(error({"generate", "-m", story(), "-p", ""}), HasSubstr("prompt is empty"));
  EXPECT_THAT(error({"run", story(), "-p", " \n"}), HasSubstr("prompt is empty"));
  EXPECT_THAT(generate_error(story(), "\xFF\xFE"), HasSubstr("UTF-8"));
  std::string longer;
  for (int i = 0; i < 400; ++i) longer += "Once upon a time ";
  EXPECT_THAT(generate_error(story(), longer), HasSubstr("512"));
}

TEST_F(CliErrors, Configurations) {
  EXPECT_THAT(generate_error(with_config("\"llama\"", "\"NoSuchModel\"")),
              HasSubstr("Unsupported model type: NoSuchModel"));
  EXPECT_THAT(generate_error(with_config("{", "")), HasSubstr("config.json"));
  EXPECT_THAT(generate_error(with_config("\"hidden_size\": 64", "\"hidden_size\": 640000000000")),
              HasSubstr("hidden_size"));
  EXPECT_THAT(generate_error(with_config("\"num_hidden_layers\": 5", "\"num_hidden_layers\": 6")),
              HasSubstr("model.layers.5"));
}

TEST_F(CliErrors, DamagedFiles) {
  std::string dir = story_copy("truncated");
  fs::permissions(dir + "/model.safetensors", fs::perms::owner_all);
  fs::resize_file(dir + "/model.safetensors", 100'000);
  EXPECT_THAT(generate_error(dir), HasSubstr("model.safetensors"));
  fs::resize_file(dir + "/model.safetensors", 5);
  EXPECT_THAT(generate_error(dir), HasSubstr("model.safetensors"));
  dir = story_copy("no-tokenizer");
  fs::remove(dir + "/tokenizer.json");
  EXPECT_THAT(generate_error(dir), HasSubstr("tokenizer.json"));
  dir = story_copy("bad-template");
  std::ofstream(dir + "/chat_template.jinja") << "{% for x in %}";
  EXPECT_THAT(error({"generate", "-m", dir, "-p", "x"}), HasSubstr("chat template"));
  EXPECT_THAT(generate_error(home_.write("noise.gguf", "GGUF\x03")), HasSubstr("noise.gguf"));
}

TEST_F(CliErrors, Environment) {
  options_.env["MLXCEL_DEVICE"] = "metal";
  EXPECT_THAT(generate_error(story()), HasSubstr("metal"));
  options_.env["MLXCEL_DEVICE"] = "tpu";
  EXPECT_THAT(generate_error(story()), HasSubstr("tpu"));
  options_.env["MLXCEL_DEVICE"] = "cpu";
  options_.env["MLXCEL_SURGERY"] = "x.yaml";
  EXPECT_THAT(generate_error(story()), HasSubstr("MLXCEL_SURGERY"));
}

TEST_F(CliErrors, UnavailableFlagsAndCommands) {
  EXPECT_THAT(error({"generate", "-m", story(), "--adapter", "x", "-p", "y"}),
              HasSubstr("--adapter is not available in this build"));
  EXPECT_THAT(error({"embed", "-m", story()}), HasSubstr("'embed' is not available"));
}

TEST_F(CliErrors, MemoryCheck) {
  options_.env["MLXCEL_MEMORY_LIMIT"] = "64K";
  const std::vector<std::string> arguments = {"generate", "-m", story(), "--no-chat-template", "-p",
                                              "Once",     "-n", "5",     "--estimate-memory"};
  const testing::ProcessResult refused = mlxcel(arguments);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(refused.err, HasSubstr("error: the model needs"));
  std::vector<std::string> forced = arguments;
  forced.emplace_back("--force");
  EXPECT_FALSE(answer(forced).empty());
  options_.env["MLXCEL_MEMORY_LIMIT"] = "1G";
  EXPECT_FALSE(answer(arguments).empty());
}

TEST_F(CliErrors, FullStandardOutput) {
  // /dev/full refuses every write.
  const testing::ProcessResult r =
      testing::run_process("/bin/sh", {"-c", "\"$0\" arch > /dev/full", program_}, options_);
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_THAT(r.err, HasSubstr("standard output"));
}

TEST_F(CliErrors, ControlCharactersAreEscaped) {
  EXPECT_THAT(generate_error(with_config("\"llama\"", "\"\\u001b[31mred\"")),
              HasSubstr("\\x1b[31mred"));
}

TEST_F(CliErrors, ClosedStandardStreams) {
  const auto shell = [&](const std::string& redirect) {
    const std::string command =
        "\"$0\" generate -m \"$1\" --no-chat-template -p Once -n 4 " + redirect;
    return testing::run_process("/bin/sh", {"-c", command, program_, story()}, options_);
  };
  const testing::ProcessResult all = shell("");
  ASSERT_EQ(all.exit_code, 0) << all.err;
  for (const char* redirect : {"2>&-", "2>/dev/full", "<&-", "<&- 2>&-"}) {
    const testing::ProcessResult r = shell(redirect);
    EXPECT_LT(r.exit_code, 126) << redirect << " ended by a signal";
    if (std::string_view(redirect) == "2>/dev/full") continue;  // messages that are lost may end it
    EXPECT_EQ(r.exit_code, 0) << redirect;
    EXPECT_EQ(r.out.substr(0, r.out.find("\n\n[")), all.out.substr(0, all.out.find("\n\n[")));
  }
  for (const char* redirect : {">&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(shell(redirect).exit_code, 1) << redirect;
  }
}

}  // namespace
}  // namespace mlxcel
