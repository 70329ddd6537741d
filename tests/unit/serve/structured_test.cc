// Answers held to grammars and schemas, and tool calls, over a scripted model.
#include <gmock/gmock.h>

#include "serving.h"

namespace mlxcel::serve::testing {
namespace {

using ::testing::HasSubstr;

const Json& at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) throw Error(Code::NotFound, key);
  return *value;
}

Serving::Options script(std::vector<std::string> words) {
  Serving::Options o;
  o.script = std::move(words);
  return o;
}

std::string chat(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "hi"}], )" + more + "}";
}
Json choice_of(const Reply& r) { return at(r.json(), "choices").as_array()[0]; }
std::string content_of(const Reply& r) {
  return at(at(choice_of(r), "message"), "content").as_string();
}

TEST(Structured, TheGrammarDecidesNotTheModel) {
  Serving s(script({"Sure", "!", " Here"}));
  for (const std::string& format :
       {std::string(R"("response_format": {"type": "json_schema", "json_schema": {"strict": true,
          "schema": {"const": "ab"}}})"),
        std::string(R"("json_schema": {"enum": ["ab"]})"),
        std::string(R"("grammar": "root ::= \"\\\"\" \"ab\\\"\"")")}) {
    const Reply r = s.post("/v1/chat/completions", chat(format));
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(content_of(r), "\"ab\"");
    EXPECT_EQ(at(choice_of(r), "finish_reason").as_string(), "stop");
  }
  const Reply free = s.post("/v1/chat/completions", chat(R"("response_format": {"type": "text"})"));
  EXPECT_EQ(content_of(free), "Sure! Here");
}

TEST(Structured, TheModelChoosesWhereItMayAndEndsWithTheValue) {
  Serving s(script({"{\"a\":", "true", "}", " and more"}));
  const std::string schema = R"("json_schema": {"type": "object", "properties":
      {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false})";
  EXPECT_EQ(content_of(s.post("/v1/chat/completions", chat(schema))), "{\"a\":true}");
  const Reply stream = s.post("/v1/chat/completions", chat(schema + R"(, "stream": true)"));
  std::string content;
  for (const Json& e : stream.events()) {
    for (const Json& c : at(e, "choices").as_array()) {
      const Json* piece = at(c, "delta").find("content");
      if (piece != nullptr && piece->is_string()) content += piece->as_string();
    }
  }
  EXPECT_EQ(content, "{\"a\":true}");
}

TEST(Structured, DefaultsOfTheServerGiveWayToTheRequest) {
  Serving s(script({"Sure", "!"}));
  s.defaults.grammar = text::Grammar::from_gbnf("root ::= \"no\"").value();
  EXPECT_EQ(content_of(s.post("/v1/chat/completions", chat(R"("seed": 1)"))), "no");
  EXPECT_EQ(content_of(s.post("/v1/chat/completions", chat(R"("grammar": "root ::= \"x\"")"))),
            "x");
}

// An escaped punctuation mark in a pattern is that mark; it must never end in free text.
TEST(Structured, PatternsWithNeedlessEscapes) {
  Serving s(script({"Sure", "!"}));
  const Reply r = s.post("/v1/chat/completions", chat(R"("response_format": {"type": "json_schema",
      "json_schema": {"strict": true, "schema": {"type": "object", "properties": {"s": {"type":
      "string", "pattern": "^hello there\\!$"}}, "required": ["s"],
      "additionalProperties": false}}})"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(at(Json::parse(content_of(r)).value(), "s").as_string(), "hello there!");
}

TEST(Structured, BeginsBehindTheThinkingThatTheTemplateOpened) {
  Serving::Options o = script({"hm", "</think>", "\n\n", "true", "x"});
  o.chat_template = "{{ messages[0].content }}<think>\n";
  Serving s(o);
  const Reply r = s.post("/v1/chat/completions", chat(R"("json_schema": {"type": "boolean"})"));
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(content_of(r), "true");
  EXPECT_EQ(at(at(choice_of(r), "message"), "reasoning_content").as_string(), "hm");
}

constexpr const char* kTool = R"("tools": [{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"],
    "additionalProperties": false}}}])";

Serving::Options calling(std::vector<std::string> words) {
  Serving::Options o = script(std::move(words));
  o.chat_template += "{# <tool_call> #}";
  return o;
}

TEST(Tools, CallsAreTakenOutOfTheText) {
  Serving s(calling({"Let me", " see. ", "<tool_call>",
                     "\n{\"name\": \"f\", \"arguments\": ", "{\"x\":1}", "}", "\n</tool_call>"}));
  const std::string once = std::string(kTool) + R"(, "parallel_tool_calls": false)";
  const Reply r = s.post("/v1/chat/completions", chat(once));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json choice = choice_of(r);
  const Json& message = at(choice, "message");
  EXPECT_EQ(at(message, "content").as_string(), "Let me see.");
  ASSERT_EQ(at(message, "tool_calls").size(), 1U);
  const Json call = at(message, "tool_calls").as_array()[0];
  EXPECT_EQ(at(at(call, "function"), "name").as_string(), "f");
  EXPECT_EQ(at(at(call, "function"), "arguments").as_string(), R"({"x":1})");
  EXPECT_THAT(at(call, "id").as_string(), HasSubstr("call_"));
  EXPECT_EQ(at(choice_of(r), "finish_reason").as_string(), "tool_calls");

  const Reply stream = s.post("/v1/chat/completions", chat(once + R"(, "stream": true)"));
  std::string name;
  std::string arguments;
  std::string content;
  std::string finish;
  for (const Json& e : stream.events()) {
    for (const Json& c : at(e, "choices").as_array()) {
      if (at(c, "finish_reason").is_string()) finish = at(c, "finish_reason").as_string();
      const Json* piece = at(c, "delta").find("content");
      if (piece != nullptr && piece->is_string()) content += piece->as_string();
      const Json* calls = at(c, "delta").find("tool_calls");
      if (calls == nullptr) continue;
      const Json& part = calls->as_array()[0];
      EXPECT_EQ(at(part, "index").as_int(), 0);
      if (const Json* n = at(part, "function").find("name")) name += n->as_string();
      arguments += at(at(part, "function"), "arguments").as_string();
    }
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, R"({"x":1})");
  EXPECT_EQ(content, "Let me see.");
  EXPECT_EQ(finish, "tool_calls");
}

TEST(Tools, ARequiredCallIsMade) {
  Serving s(calling({"Hello", "!"}));
  for (const char* choice : {R"("tool_choice": "required")",
                             R"("tool_choice": {"type": "function", "function": {"name": "f"}})"}) {
    const Reply r =
        s.post("/v1/chat/completions",
               chat(std::string(kTool) + ", \"parallel_tool_calls\": false, " + choice));
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(at(choice_of(r), "finish_reason").as_string(), "tool_calls") << r.body;
    const Json choice_json = choice_of(r);
    const Json& calls = at(at(choice_json, "message"), "tool_calls");
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(at(at(calls.as_array()[0], "function"), "arguments").as_string(), R"({"x":1})");
  }
}

TEST(Tools, MalformedCallsAreText) {
  Serving s(script({"<tool_call>", "{oops", "</tool_call>"}));
  const Reply r = s.post("/v1/chat/completions", chat(R"("seed": 1)"));
  EXPECT_EQ(content_of(r), "<tool_call>{oops</tool_call>");
  EXPECT_EQ(at(choice_of(r), "finish_reason").as_string(), "stop");
}

}  // namespace
}  // namespace mlxcel::serve::testing
