// The interactive chat through pipes and on a terminal, chat templates, Ctrl-C.
#include <signal.h>

#include <fstream>

#include "cli_fixture.h"

namespace mlxcel {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::Terminal;
namespace fs = std::filesystem;

class ChatTest : public CliTest {
 protected:
  ProcessResult chat(const std::string& input, std::vector<std::string> more = {}) {
    options_.input = input;
    std::vector<std::string> arguments = {"run", story(), "-n", "12"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mlxcel(arguments);
  }
  /// A copy with a template and, when wanted, room for an answer that takes minutes.
  std::string with_template(const std::string& source, bool endless = false) const {
    const std::string dir = story_copy("templated");
    std::ofstream(dir + "/chat_template.jinja") << source;
    if (endless) {
      std::string config = read_file(dir + "/config.json");
      const std::string key = "\"max_position_embeddings\": 512";
      config.replace(config.find(key), key.size(), "\"max_position_embeddings\": 400000");
      fs::permissions(dir + "/config.json", fs::perms::owner_all);
      std::ofstream(dir + "/config.json") << config;
    }
    return dir;
  }
};

TEST_F(ChatTest, ScriptedThroughAPipe) {
  const ProcessResult r =
      chat("Once upon a time\n/clear\n/help\n/nonsense\n/image x.png\n/bye\nnot read\n");
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("mlxcel interactive chat"));
  EXPECT_THAT(r.out, HasSubstr("A new conversation starts."));
  EXPECT_THAT(r.out, HasSubstr("/bye"));
  EXPECT_TRUE(r.out.ends_with("Bye!\n")) << r.out;
  EXPECT_THAT(r.err, HasSubstr("no terminal"));
  EXPECT_THAT(r.err, HasSubstr("base model"));
  EXPECT_THAT(r.err, HasSubstr("/nonsense"));
  EXPECT_THAT(r.err, HasSubstr("/image is not available"));
}

TEST_F(ChatTest, EndOfInputIsGoodbye) {
  const ProcessResult r = chat("hello");
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_TRUE(r.out.ends_with("Bye!\n"));
}

TEST_F(ChatTest, FencedBlocksAreOneMessage) {
  options_.env["MLXCEL_PRINT_TOKEN_IDS"] = "1";
  const auto ids = [](const std::string& err) {
    const size_t at = err.find("[prompt ids");
    return err.substr(at, err.find(']', at) - at);
  };
  const std::vector<std::string> raw = {"--no-chat-template"};
  const ProcessResult block = chat("\"\"\"\nfirst\nsecond\n\"\"\"\n/bye\n", raw);
  EXPECT_EQ(block.exit_code, 0);
  const ProcessResult reference =
      mlxcel({"generate", "-m", story(), "--no-chat-template", "-p", "first\nsecond", "-n", "1"});
  EXPECT_EQ(ids(block.err), ids(reference.err));
  EXPECT_EQ(ids(chat("\"\"\"first\nsecond\"\"\"\n", raw).err), ids(reference.err));
}

TEST_F(ChatTest, GenerateWithoutPromptIsTheSameChat) {
  options_.input = "/bye\n";
  const ProcessResult r = mlxcel({"generate", "-m", story()});
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_THAT(r.out, HasSubstr("mlxcel interactive chat"));
}

TEST_F(ChatTest, TranscriptIsRenderedThroughTheTemplate) {
  const std::string dir =
      with_template("{% for m in messages %}{{ bos_token }}{{ m.content }}{% endfor %}", false);
  options_.env["MLXCEL_PRINT_TOKEN_IDS"] = "1";
  options_.input = "Once\nLily\n/clear\nLily\n";
  const ProcessResult r = mlxcel({"run", dir, "-n", "3"});
  EXPECT_EQ(r.exit_code, 0) << r.err;
  // The template writes BOS once for each message; the tokenizer's own BOS does not come on top.
  EXPECT_THAT(r.err, ContainsRegex("\\[prompt ids \\([0-9]+\\): 1, [^1][^\n]*\\]"));
  std::vector<std::string> prompts;
  for (size_t at = 0; (at = r.err.find("[prompt ids", at)) != std::string::npos; ++at) {
    prompts.push_back(r.err.substr(at, r.err.find(']', at) - at));
  }
  ASSERT_EQ(prompts.size(), 3U);
  EXPECT_GT(prompts[1].size(), prompts[0].size() + 10) << "the second turn holds the first";
  EXPECT_LT(prompts[2].size(), prompts[1].size()) << "/clear forgets";
}

TEST_F(ChatTest, TemplateRefusalIsNamedAndTheChatGoesOn) {
  const std::string dir = with_template("{{ raise_exception('only poems please') }}");
  options_.input = "hello\n/bye\n";
  const ProcessResult r = mlxcel({"run", dir, "-n", "3"});
  EXPECT_EQ(r.exit_code, 1) << "a script sees that a message had no answer";
  EXPECT_THAT(r.err, HasSubstr("only poems please"));
  EXPECT_THAT(error({"generate", "-m", dir, "-p", "x"}), HasSubstr("only poems please"));
}

TEST_F(ChatTest, ReasoningIsHiddenUnlessAskedFor) {
  // The prompt ends inside an open thinking block, and the model never closes it.
  const std::string dir = with_template(
      "{% for m in messages %}{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}");
  const ProcessResult hidden = mlxcel({"run", dir, "-p", "Once", "-n", "10"});
  EXPECT_EQ(hidden.exit_code, 0) << hidden.err;
  EXPECT_THAT(hidden.out, HasSubstr("[All 10 generated tokens went to the reasoning channel; the "
                                    "content channel is empty. Re-run with --show-reasoning to "
                                    "see them.]"));
  const ProcessResult shown = mlxcel({"run", dir, "-p", "Once", "-n", "10", "--show-reasoning"});
  EXPECT_THAT(shown.out, Not(HasSubstr("reasoning channel")));
  EXPECT_THAT(shown.out, Not(HasSubstr("think>")));
  EXPECT_GT(shown.out.find("\n\n[Generated"), 10U);
}

TEST_F(ChatTest, RawTextWithAWrittenBosHasOne) {
  options_.env["MLXCEL_PRINT_TOKEN_IDS"] = "1";
  for (const char* prompt : {"Once", "<s>Once"}) {
    const ProcessResult r =
        mlxcel({"generate", "-m", story(), "--no-chat-template", "-p", prompt, "-n", "1"});
    EXPECT_THAT(r.err, ContainsRegex("\\[prompt ids \\([0-9]+\\): 1, [2-9]")) << prompt;
  }
}

TEST_F(ChatTest, TerminalHasPromptHistoryAndInterrupts) {
  Terminal t(program_, {"run", story(), "-n", "8"}, options_.env);
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("hello there\r");
  ASSERT_TRUE(t.wait_for("\n\r\n")) << t.screen();
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("\x1b[A");  // up: the last line again
  ASSERT_TRUE(t.wait_for("hello there")) << t.screen();
  t.type("\x03");
  ASSERT_TRUE(t.wait_for("(^C — type /bye to exit)")) << t.screen();
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("\"\"\"\r");
  ASSERT_TRUE(t.wait_for("... ")) << t.screen();
  t.type("\x03");
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("/bye\r");
  ASSERT_TRUE(t.wait_for("Bye!")) << t.screen();
  EXPECT_EQ(t.wait_exit(), 0);
}

TEST_F(ChatTest, TerminalTakesUtf8) {
  options_.env["MLXCEL_PRINT_TOKEN_IDS"] = "1";
  Terminal t(program_, {"run", story(), "-n", "2", "--no-chat-template"}, options_.env);
  ASSERT_TRUE(t.wait_for(">>> "));
  t.type("h\xC3\xA9\xE2\x82\xAC\r");
  ASSERT_TRUE(t.wait_for("[prompt ids")) << t.screen();
  ASSERT_TRUE(t.wait_for("]\r\n"));
  const std::string ids = t.screen().substr(t.screen().find("[prompt ids"));
  const ProcessResult reference = mlxcel(
      {"generate", "-m", story(), "--no-chat-template", "-p", "h\xC3\xA9\xE2\x82\xAC", "-n", "1"});
  EXPECT_THAT(reference.err, HasSubstr(ids.substr(0, ids.find(']') + 1)));
}

TEST_F(ChatTest, InterruptStopsTheAnswerAndDropsTheExchange) {
  const std::string dir =
      with_template("{% for m in messages %}{{ m.content }}{% endfor %}", /*endless=*/true);
  Terminal t(program_, {"run", dir}, options_.env);
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("Once upon a time\r");
  ASSERT_TRUE(t.wait_for("Lily")) << t.screen();
  t.type("\x03");
  ASSERT_TRUE(t.wait_for("[interrupted]")) << t.screen();
  ASSERT_TRUE(t.wait_for(">>> ")) << t.screen();
  t.type("/bye\r");
  EXPECT_EQ(t.wait_exit(), 0);
}

TEST_F(ChatTest, InterruptEndsGenerateCleanly) {
  const std::string dir =
      with_template("{% for m in messages %}{{ m.content }}{% endfor %}", /*endless=*/true);
  Terminal t(program_, {"generate", "-m", dir, "-p", "Once upon a time"}, options_.env);
  ASSERT_TRUE(t.wait_for("Lily")) << t.screen();
  t.type("\x03");
  ASSERT_TRUE(t.wait_for("[interrupted]")) << t.screen();
  ASSERT_TRUE(t.wait_for("[Generated ")) << t.screen();
  EXPECT_EQ(t.wait_exit(), 130);
}

}  // namespace
}  // namespace mlxcel
