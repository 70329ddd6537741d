// Outputs in the words of the published formats, typed parameters, detection, and grammars of
// calls.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "testing/paths.h"
#include "text/tool_calls.h"

namespace mlxcel::text {
namespace {

std::vector<ToolCall> calls_of(ToolFormat format, std::string_view text, const Json& tools = Json(),
                               std::string* content = nullptr) {
  const auto parser = make_tool_call_parser(format, tools);
  ToolDelta a = parser->push(text);
  const ToolDelta b = parser->finish();
  a.calls.insert(a.calls.end(), b.calls.begin(), b.calls.end());
  if (content != nullptr) *content = a.content + b.content;
  return a.calls;
}

TEST(Recorded, IdsAreKept) {
  EXPECT_EQ(calls_of(ToolFormat::Mistral,
                     R"([TOOL_CALLS][{"name":"f","arguments":{"a":1},"id":"VvvODy9mT"}])"),
            (std::vector<ToolCall>{{"VvvODy9mT", "f", R"({"a":1})"}}));
  EXPECT_EQ(calls_of(ToolFormat::Mistral, R"([TOOL_CALLS]f[CALL_ID]000000001[ARGS]{"a": 1})"),
            (std::vector<ToolCall>{{"000000001", "f", R"({"a":1})"}}));
  EXPECT_EQ(calls_of(ToolFormat::KimiK2,
                     "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                     "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
            (std::vector<ToolCall>{{"functions.f:0", "f", "{}"}}));
}

TEST(Recorded, BuiltInToolsOfLlama) {
  EXPECT_EQ(calls_of(ToolFormat::Llama3Json,
                     R"(<|python_tag|>brave_search.call(query="Menlo Park weather"))"),
            (std::vector<ToolCall>{{"", "brave_search", R"({"query":"Menlo Park weather"})"}}));
}

TEST(Recorded, ArgumentsAsAString) {
  EXPECT_EQ(calls_of(ToolFormat::Hermes,
                     R"(<tool_call>{"name":"f","arguments":"{\"a\": 1}"}</tool_call>)"),
            (std::vector<ToolCall>{{"", "f", R"({"a":1})"}}));
  EXPECT_EQ(calls_of(ToolFormat::Hermes,
                     "<tool_call>{'name': 'f', 'arguments': {'a': True}}"
                     "</tool_call>"),
            (std::vector<ToolCall>{{"", "f", R"({"a":true})"}}));
}

TEST(Recorded, MalformedCallsAreText) {
  for (const std::string text :
       {"<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{oops}</tool_call>",
        "<tool_call></tool_call>", "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>"}) {
    std::string content;
    EXPECT_TRUE(calls_of(ToolFormat::Hermes, text, Json(), &content).empty());
    EXPECT_EQ(content, text);
  }
}

// Values follow the declared types; what does not parse is a string, never an error.
TEST(Recorded, TypedParametersOfXml) {
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"schedule","parameters":
    {"type":"object","properties":{"when":{"type":"string"},"opts":{"type":"object"},
    "count":{"type":"integer"},"flag":{"type":"boolean"}}}}}])")
                         .value();
  const auto call = [](std::string_view when, std::string_view opts) {
    return "<tool_call>\n<function=schedule>\n<parameter=when>\n" + std::string(when) +
           "\n</parameter>\n<parameter=opts>\n" + std::string(opts) +
           "\n</parameter>\n<parameter=count>\n007\n</parameter>\n<parameter=flag>\nTrue\n"
           "</parameter>\n</function>\n</tool_call>";
  };
  EXPECT_EQ(calls_of(ToolFormat::QwenCoder, call("2026-05-02T10:00:00Z", "{'a': 1}"), tools),
            (std::vector<ToolCall>{
                {"", "schedule",
                 R"({"when":"2026-05-02T10:00:00Z","opts":{"a":1},"count":7,"flag":true})"}}));
  EXPECT_EQ(
      calls_of(ToolFormat::QwenCoder, call("123", "not an object"), tools),
      (std::vector<ToolCall>{
          {"", "schedule", R"({"when":"123","opts":"not an object","count":7,"flag":true})"}}));
  EXPECT_EQ(
      calls_of(ToolFormat::QwenCoder,
               "<function=schedule><parameter=when>x</parameter> y</parameter></function>", tools),
      (std::vector<ToolCall>{{"", "schedule", R"({"when":"x</parameter> y"})"}}));
}

TEST(Detection, ByTemplate) {
  const std::pair<const char*, ToolFormat> cases[] = {
      {"Qwen-Qwen3-0.6B", ToolFormat::Hermes},
      {"Qwen3-Coder", ToolFormat::QwenCoder},
      {"GLM-4.6", ToolFormat::Glm},
      {"meta-llama-Llama-3.1-8B-Instruct", ToolFormat::Llama3Json},
      {"mistralai-Mistral-Nemo-Instruct-2407", ToolFormat::Mistral},
      {"Mistral-Small-3.2-24B-Instruct-2506", ToolFormat::Mistral},
      {"deepseek-ai-DeepSeek-V3.1", ToolFormat::DeepSeek},
      {"google-gemma-4-31B-it", ToolFormat::Gemma4},
      {"CohereForAI-c4ai-command-r-plus-tool_use", ToolFormat::CommandR},
      {"Kimi-K2-Instruct", ToolFormat::KimiK2},
      {"LFM2.5-Instruct", ToolFormat::Lfm2},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", ToolFormat::Hermes},
  };
  for (const auto& [name, format] : cases) {
    const std::string path =
        testing::data_path(std::string("chat-templates/templates/") + name + ".jinja");
    std::ifstream in(path, std::ios::binary);
    if (!in) continue;
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(static_cast<int>(detect_tool_format(source)), static_cast<int>(format)) << name;
  }
}

TEST(ToolGrammar, CallsAreValidAndTextIsFree) {
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f","description":null,
    "parameters":{"type":"object","properties":{"s":{"type":"string","maxLength":5000},
    "p":{"type":"string","pattern":"^[a-z]+$"}},"required":["s"],"additionalProperties":false}}},
    {"type":"function","function":{"name":"g"}}])")
                         .value();
  const auto free = tool_grammar(ToolFormat::Hermes, tools, {}).value();
  EXPECT_TRUE(free->matches("hi"));
  EXPECT_TRUE(
      free->matches("Look: <tool_call>\n{\"name\": \"f\", \"arguments\": "
                    "{\"s\":\"x\",\"p\":\"ab\"}}\n</tool_call>"));
  EXPECT_FALSE(
      free->matches_prefix("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\":\"x\",\"p\":\"A"));
  EXPECT_FALSE(free->matches_prefix("<tool_call>\n{\"name\": \"h"));
  EXPECT_TRUE(free->matches_prefix("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\":\"" +
                                   std::string(5000, 'x') + "\""));
  EXPECT_FALSE(free->matches_prefix("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\":\"" +
                                    std::string(5001, 'x')));
  ToolChoice one;
  one.mode = ToolChoice::Mode::Required;
  one.name = "g";
  one.parallel = false;
  const auto forced = tool_grammar(ToolFormat::Mistral, tools, one).value();
  EXPECT_TRUE(forced->matches("[TOOL_CALLS][{\"name\": \"g\", \"arguments\": {}}]"));
  EXPECT_FALSE(forced->matches_prefix("hi"));
  EXPECT_FALSE(forced->matches_prefix("[TOOL_CALLS][{\"name\": \"f"));
  one.name = "nobody";
  EXPECT_FALSE(tool_grammar(ToolFormat::Mistral, tools, one).ok());
  one.name = "g";
  const auto newer = tool_grammar(ToolFormat::Mistral, tools, one).value();
  EXPECT_TRUE(newer->matches("[TOOL_CALLS]g[ARGS]{}"));
  EXPECT_EQ(tool_grammar(ToolFormat::Llama3Json, tools, {}).value(), nullptr);
  EXPECT_EQ(tool_grammar(ToolFormat::Glm, tools, {}).value(), nullptr);
}

}  // namespace
}  // namespace mlxcel::text
