// Tool calls as items of the Responses API and blocks of Anthropic's Messages.
#include <gmock/gmock.h>

#include "serve/wire/anthropic.h"
#include "serve/wire/responses.h"
#include "serving.h"

namespace mlxcel::serve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Json& at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) throw Error(Code::NotFound, key);
  return *value;
}
const std::string& text_at(const Json& json, const char* key) { return at(json, key).as_string(); }

constexpr const char* kCallF =
    "<tool_call><function=f><parameter=x>1</parameter></function></tool_call>";
constexpr const char* kCallG = "<tool_call><function=g></function></tool_call>";

// The template names the form of Qwen3-Coder, which no grammar holds: what the script says comes.
Serving::Options calling(std::vector<std::string> words) {
  Serving::Options o;
  o.script = std::move(words);
  o.chat_template =
      "{# <function= #}{% for m in messages %}[{{ m.role }}]"
      "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}<{{ c.id }} {{ c.function.name }} "
      "{{ c.function.arguments | tojson }}>{% endfor %}{% endfor %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}";
  return o;
}

Serving::Options everything() {
  return calling({"<think>", "Hm", "</think>", "\n\n", "Let me", " see.", " \n", kCallF, "\n ",
                  kCallG, " \n ", "Done"});
}

std::string response_body(const std::string& more = {}) {
  return R"({"input": "hi", "tools": [
      {"type": "function", "name": "f", "parameters": {"type": "object",
       "properties": {"x": {"type": "integer"}}}},
      {"type": "function", "name": "g", "parameters": {"type": "object"}}])" +
         more + "}";
}

std::string message_body(const std::string& more = {}) {
  return R"({"max_tokens": 50, "messages": [{"role": "user", "content": "hi"}], "tools": [
      {"name": "f", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}},
      {"name": "g", "input_schema": {"type": "object"}}])" +
         more + "}";
}

/// What each event is about: its name without the prefix, and the place in the output.
std::vector<std::string> outline(const Reply& r, const char* index_key) {
  std::vector<std::string> out;
  for (const Json& e : r.events()) {
    std::string line = text_at(e, "type");
    if (line.starts_with("response.")) line.erase(0, 9);
    if (const Json* index = e.find(index_key)) line += " " + std::to_string(index->as_int());
    if (out.empty() || out.back() != line) out.push_back(line);
  }
  return out;
}

std::vector<std::string> types_of(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.as_array()) out.push_back(text_at(item, "type"));
  return out;
}

std::string prompt_of(wire::ChatRequest request, const ServerState& state) {
  wire::render(request, state.model.chat, *state.model.tokenizer);
  return request.prompt.text;
}
std::string prompt_of_responses(const Serving& s, const std::string& body) {
  const auto unknown = [](const std::string&) -> const Json* { return nullptr; };
  return prompt_of(wire::read_responses(Json::parse(body).value(), s.state, unknown, unknown).chat,
                   s.state);
}
std::string prompt_of_messages(const Serving& s, const std::string& body) {
  return prompt_of(wire::read_anthropic(Json::parse(body).value(), s.state), s.state);
}

TEST(ResponsesCalls, AreItemsOfAWholeAnswer) {
  Serving s(everything());
  const Reply r = s.post("/v1/responses", response_body());
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = r.json();
  const Json& output = at(j, "output");
  EXPECT_THAT(types_of(output),
              ElementsAre("reasoning", "message", "function_call", "function_call", "message"));
  const Json& call = output.as_array()[2];
  EXPECT_THAT(text_at(call, "id"), StartsWith("fc_"));
  EXPECT_THAT(text_at(call, "call_id"), StartsWith("call_"));
  EXPECT_EQ(text_at(call, "name"), "f");
  EXPECT_EQ(text_at(call, "arguments"), R"({"x":1})");
  EXPECT_EQ(text_at(call, "status"), "completed");
  const Json& other = output.as_array()[3];
  EXPECT_EQ(text_at(other, "name"), "g");
  EXPECT_EQ(text_at(other, "arguments"), "{}");
  EXPECT_NE(text_at(other, "id"), text_at(call, "id"));
  EXPECT_NE(text_at(other, "call_id"), text_at(call, "call_id"));
  EXPECT_THAT(text_at(j, "output_text"), StartsWith("Let me see."));
  EXPECT_EQ(text_at(j, "status"), "completed");
  // "<think>", "Hm" and "</think>": tokens of calls are no thinking.
  EXPECT_EQ(at(at(at(j, "usage"), "output_tokens_details"), "reasoning_tokens").as_int(), 3);
}

TEST(ResponsesCalls, EventsInOrder) {
  Serving s(everything());
  const Reply r = s.post("/v1/responses", response_body(R"(, "stream": true)"));
  EXPECT_THAT(
      outline(r, "output_index"),
      ElementsAre("created", "in_progress", "output_item.added 0", "reasoning_text.delta 0",
                  "reasoning_text.done 0", "output_item.done 0", "output_item.added 1",
                  "content_part.added 1", "output_text.delta 1", "output_text.done 1",
                  "content_part.done 1", "output_item.done 1", "output_item.added 2",
                  "function_call_arguments.delta 2", "function_call_arguments.done 2",
                  "output_item.done 2", "output_item.added 3", "function_call_arguments.delta 3",
                  "function_call_arguments.done 3", "output_item.done 3", "output_item.added 4",
                  "content_part.added 4", "output_text.delta 4", "output_text.done 4",
                  "content_part.done 4", "output_item.done 4", "completed"));
  const std::vector<Json> events = r.events();
  const Json& output = at(at(events.back(), "response"), "output");
  ASSERT_EQ(output.size(), 5U);
  const Json& item = output.as_array()[2];
  int64_t sequence = 0;
  std::string arguments;
  for (const Json& e : events) {
    EXPECT_EQ(at(e, "sequence_number").as_int(), sequence++);
    const Json* index = e.find("output_index");
    if (index == nullptr || index->as_int() != 2) continue;
    const std::string& type = text_at(e, "type");
    if (type == "response.output_item.added") {
      EXPECT_EQ(text_at(at(e, "item"), "id"), text_at(item, "id"));
      EXPECT_EQ(text_at(at(e, "item"), "call_id"), text_at(item, "call_id"));
      EXPECT_EQ(text_at(at(e, "item"), "arguments"), "");
      EXPECT_EQ(text_at(at(e, "item"), "status"), "in_progress");
    } else if (type == "response.output_item.done") {
      EXPECT_EQ(at(e, "item"), item);
    } else {
      EXPECT_EQ(text_at(e, "item_id"), text_at(item, "id"));
      if (type.ends_with(".delta")) arguments += text_at(e, "delta");
      if (type.ends_with(".done")) {
        EXPECT_EQ(text_at(e, "arguments"), R"({"x":1})");
      }
    }
  }
  EXPECT_EQ(arguments, R"({"x":1})");
}

TEST(ResponsesCalls, ACallAloneHasNoMessage) {
  Serving s(calling({kCallF}));
  const Json j = s.post("/v1/responses", response_body()).json();
  EXPECT_THAT(types_of(at(j, "output")), ElementsAre("function_call"));
  EXPECT_EQ(text_at(j, "output_text"), "");
}

TEST(ResponsesCalls, ThoseOfTheMessageAloneHaveLogProbabilities) {
  Serving s(calling({"<think>", "Hm", "</think>", "Well", kCallF, "Done"}));
  const Json j = s.post("/v1/responses", response_body(R"(, "top_logprobs": 1)")).json();
  const Json::Array& output = at(j, "output").as_array();
  ASSERT_EQ(output.size(), 4U);
  for (const auto& [item, token] : {std::pair{1, "Well"}, std::pair{3, "Done"}}) {
    const Json& logprobs = at(at(output[item], "content").as_array()[0], "logprobs");
    ASSERT_GE(logprobs.size(), 1U);
    EXPECT_EQ(text_at(logprobs.as_array()[0], "token"), token);
  }
}

TEST(ResponsesCalls, StoredOnesAreHistoryOfTheNextTurn) {
  Serving s(calling({"Let me", " see.", kCallF}));
  const Json first = s.post("/v1/responses", response_body()).json();
  const std::string id = text_at(first, "id");
  EXPECT_EQ(s.send("GET", "/v1/responses/" + id).json(), first);
  const std::string call_id = text_at(at(first, "output").as_array()[1], "call_id");
  const auto count = [&](const std::string& body) {
    const Reply r = s.post("/v1/responses/input_tokens", body);
    EXPECT_EQ(r.status, 200) << r.body;
    return at(r.json(), "input_tokens").as_int();
  };
  const std::string result =
      R"({"type": "function_call_output", "call_id": ")" + call_id + R"(", "output": "42"})";
  const std::string continued =
      R"({"previous_response_id": ")" + id + R"(", "input": [)" + result + "]}";
  const std::string resent = R"({"input": [{"role": "user", "content": "hi"}, )" +
                             at(first, "output").as_array()[0].dump() + ", " +
                             at(first, "output").as_array()[1].dump() + ", " + result + "]}";
  const std::string prompt =
      "[user]hi[assistant]Let me see.<" + call_id + R"( f {"x": 1}>[tool]42[assistant])";
  EXPECT_EQ(prompt_of_responses(s, resent), prompt);
  EXPECT_EQ(count(continued), static_cast<int64_t>(prompt.size()));
  EXPECT_EQ(s.post("/v1/responses", continued).status, 200);
}

TEST(ResponsesCalls, TextBehindCallsIsOfTheirMessage) {
  Serving s(calling({"x"}));
  EXPECT_EQ(prompt_of_responses(s, R"({"input": [{"role": "user", "content": "hi"},
      {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]},
      {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"x\": 1}"},
      {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
      {"role": "assistant", "content": "b"},
      {"type": "function_call_output", "call_id": "1", "output": "p"},
      {"type": "function_call_output", "call_id": "2",
       "output": [{"type": "input_text", "text": "q"}]}]})"),
            R"([user]hi[assistant](Hm)ab<1 f {"x": 1}><2 g {}>[tool]p[tool]q[assistant])");
}

TEST(ResponsesCalls, MalformedOnesAreText) {
  Serving s(calling({"<tool_call>", "<function=f", "oops", "</tool_call>"}));
  for (const char* more : {"", R"(, "stream": true)"}) {
    const Reply r = s.post("/v1/responses", response_body(more));
    const Json j = r.streamed ? at(r.events().back(), "response") : r.json();
    EXPECT_THAT(types_of(at(j, "output")), ElementsAre("message"));
    EXPECT_EQ(text_at(j, "output_text"), "<tool_call><function=foops</tool_call>");
    EXPECT_THAT(r.body, Not(HasSubstr("function_call_arguments")));
  }
}

TEST(ResponsesCalls, AreTextWithoutToolsOrParsing) {
  Serving plain(calling({kCallF}));
  EXPECT_EQ(text_at(plain.post("/v1/responses", R"({"input": "hi"})").json(), "output_text"),
            kCallF);
  Serving::Options o = calling({kCallF});
  o.generation.skip_chat_parsing = true;
  Serving unparsed(o);
  EXPECT_EQ(text_at(unparsed.post("/v1/responses", response_body()).json(), "output_text"), kCallF);
}

TEST(AnthropicCalls, AreBlocksOfAWholeAnswer) {
  Serving s(everything());
  const Reply r = s.post("/v1/messages", message_body());
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = r.json();
  const Json& content = at(j, "content");
  EXPECT_THAT(types_of(content), ElementsAre("thinking", "text", "tool_use", "tool_use", "text"));
  EXPECT_EQ(text_at(content.as_array()[1], "text"), "Let me see.");
  const Json& call = content.as_array()[2];
  EXPECT_THAT(text_at(call, "id"), StartsWith("toolu_"));
  EXPECT_EQ(text_at(call, "name"), "f");
  EXPECT_EQ(at(call, "input"), Json::object({{"x", 1}}));
  EXPECT_EQ(at(content.as_array()[3], "input"), Json::object());
  EXPECT_NE(text_at(content.as_array()[3], "id"), text_at(call, "id"));
  EXPECT_EQ(text_at(j, "stop_reason"), "tool_use");
  EXPECT_TRUE(at(j, "stop_sequence").is_null());
}

TEST(AnthropicCalls, EventsInOrder) {
  Serving s(everything());
  const Reply r = s.post("/v1/messages", message_body(R"(, "stream": true)"));
  EXPECT_THAT(outline(r, "index"),
              ElementsAre("message_start", "content_block_start 0", "content_block_delta 0",
                          "content_block_stop 0", "content_block_start 1", "content_block_delta 1",
                          "content_block_stop 1", "content_block_start 2", "content_block_delta 2",
                          "content_block_stop 2", "content_block_start 3", "content_block_delta 3",
                          "content_block_stop 3", "content_block_start 4", "content_block_delta 4",
                          "content_block_stop 4", "message_delta", "message_stop"));
  std::string arguments;
  for (const Json& e : r.events()) {
    const std::string& type = text_at(e, "type");
    if (type == "message_delta") {
      EXPECT_EQ(text_at(at(e, "delta"), "stop_reason"), "tool_use");
    }
    const Json* index = e.find("index");
    if (index == nullptr || index->as_int() != 2) continue;
    if (type == "content_block_start") {
      const Json& block = at(e, "content_block");
      EXPECT_EQ(text_at(block, "type"), "tool_use");
      EXPECT_THAT(text_at(block, "id"), StartsWith("toolu_"));
      EXPECT_EQ(text_at(block, "name"), "f");
      EXPECT_EQ(at(block, "input"), Json::object());
    } else if (type == "content_block_delta") {
      EXPECT_EQ(text_at(at(e, "delta"), "type"), "input_json_delta");
      arguments += text_at(at(e, "delta"), "partial_json");
    }
  }
  EXPECT_EQ(arguments, R"({"x":1})");
}

// The end marker is missing, so the call and the text behind it are known at once.
TEST(AnthropicCalls, TextBehindThemStaysBehind) {
  const std::string open = "<function=f><parameter=x>1</parameter></function>";
  Serving s(calling({"Well", open, "Done"}));
  for (const char* more : {"", R"(, "stream": true)"}) {
    const Reply r = s.post("/v1/messages", message_body(more));
    if (r.streamed) {
      EXPECT_LT(r.body.find("tool_use"), r.body.find("Done"));
    } else {
      EXPECT_THAT(types_of(at(r.json(), "content")), ElementsAre("text", "tool_use", "text"));
    }
    const Reply other = s.post("/v1/responses", response_body(more));
    const Json j = other.streamed ? at(other.events().back(), "response") : other.json();
    EXPECT_THAT(types_of(at(j, "output")), ElementsAre("message", "function_call", "message"));
    EXPECT_EQ(text_at(j, "output_text"), "WellDone");
  }
}

TEST(AnthropicCalls, AnAnswerThatWasCutSaysSo) {
  Serving s(calling({kCallF, "and", "so on"}));
  const Json j = s.post("/v1/messages", R"({"max_tokens": 2, "tools": [{"name": "f"}],
                        "messages": [{"role": "user", "content": "hi"}]})")
                     .json();
  EXPECT_THAT(types_of(at(j, "content")), ElementsAre("tool_use", "text"));
  EXPECT_EQ(text_at(j, "stop_reason"), "max_tokens");
  const Json stopped = s.post("/v1/messages", message_body(R"(, "stop_sequences": ["so"])")).json();
  EXPECT_EQ(text_at(stopped, "stop_reason"), "tool_use");
  EXPECT_TRUE(at(stopped, "stop_sequence").is_null());
}

TEST(AnthropicCalls, AreHistoryOfTheNextTurn) {
  Serving s(everything());
  const Json first = s.post("/v1/messages", message_body()).json();
  const auto id = [&](size_t i) { return text_at(at(first, "content").as_array()[i], "id"); };
  const std::string next =
      R"({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"},
          {"role": "assistant", "content": )" +
      at(first, "content").dump() + R"(}, {"role": "user", "content": [
          {"type": "tool_result", "tool_use_id": ")" +
      id(2) + R"(", "content": "p"}, {"type": "tool_result", "is_error": true, "tool_use_id": ")" +
      id(3) + R"(", "content": [{"type": "text", "text": "q"}]},
          {"type": "text", "text": "go"}]}]})";
  EXPECT_EQ(prompt_of_messages(s, next), "[user]hi[assistant](Hm)Let me see. \n Done<" + id(2) +
                                             R"( f {"x": 1}><)" + id(3) +
                                             " g {}>[tool]p[tool]q[user]go[assistant]");
}

TEST(AnthropicCalls, MalformedOnesAreText) {
  Serving s(calling({"<tool_call>", "<function=f", "oops", "</tool_call>"}));
  for (const char* more : {"", R"(, "stream": true)"}) {
    const Reply r = s.post("/v1/messages", message_body(more));
    EXPECT_THAT(r.body, HasSubstr("end_turn"));
    EXPECT_THAT(r.body, Not(HasSubstr("tool_use")));
    if (r.streamed) continue;
    EXPECT_EQ(text_at(at(r.json(), "content").as_array()[0], "text"),
              "<tool_call><function=foops</tool_call>");
  }
}

}  // namespace
}  // namespace mlxcel::serve::testing
