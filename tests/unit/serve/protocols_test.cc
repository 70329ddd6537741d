// The Responses API, Anthropic's Messages, infill, resumable streams and Vertex.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "serve/timed_store.h"
#include "serving.h"

namespace mlxcel::serve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Json& at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) throw Error(Code::NotFound, key);
  return *value;
}

Serving::Options thinking() {
  Serving::Options o;
  o.script = {"<think>", "Let me", " see", "</think>", "Yes", "."};
  return o;
}

Serving::Options hello() {
  Serving::Options o;
  o.script = {"Hello", " there", "!"};
  return o;
}

TEST(Responses, WholeAnswerHasItemsAndUsage) {
  Serving s(thinking());
  const Reply r = s.post("/v1/responses", R"({"model": "m", "input": "hi", "instructions": "Be.",
                                             "metadata": {"a": "b"}})");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = r.json();
  EXPECT_THAT(at(j, "id").as_string(), StartsWith("resp_"));
  EXPECT_EQ(at(j, "status").as_string(), "completed");
  EXPECT_EQ(at(j, "output_text").as_string(), "Yes.");
  EXPECT_EQ(at(at(j, "metadata"), "a").as_string(), "b");
  ASSERT_EQ(at(j, "output").size(), 2U);
  const Json& reasoning = at(j, "output").as_array()[0];
  EXPECT_EQ(at(reasoning, "type").as_string(), "reasoning");
  EXPECT_EQ(at(at(reasoning, "content").as_array()[0], "text").as_string(), "Let me see");
  const Json& message = at(j, "output").as_array()[1];
  EXPECT_THAT(at(message, "id").as_string(), StartsWith("msg_"));
  EXPECT_EQ(at(at(message, "content").as_array()[0], "text").as_string(), "Yes.");
  EXPECT_GT(at(at(at(j, "usage"), "output_tokens_details"), "reasoning_tokens").as_int(), 0);
}

TEST(Responses, EventsInOrder) {
  Serving s(thinking());
  const Reply r = s.post("/responses", R"({"input": "hi", "stream": true})");
  std::vector<std::string> names = r.event_names();
  const auto is_delta = [](const std::string& name) { return name.ends_with(".delta"); };
  names.erase(std::unique(names.begin(), names.end(),
                          [&](const auto& a, const auto& b) { return a == b && is_delta(a); }),
              names.end());
  EXPECT_THAT(names,
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.reasoning_text.delta", "response.reasoning_text.done",
                          "response.output_item.done", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta",
                          "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"));
  std::string text;
  int64_t sequence = 0;
  for (const Json& e : r.events()) {
    EXPECT_EQ(at(e, "sequence_number").as_int(), sequence++);
    if (at(e, "type").as_string() == "response.output_text.delta") {
      text += at(e, "delta").as_string();
      EXPECT_EQ(at(e, "output_index").as_int(), 1);
    }
  }
  EXPECT_EQ(text, at(at(r.events().back(), "response"), "output_text").as_string());
}

TEST(Responses, LimitMakesItIncomplete) {
  Serving s(hello());
  const Json j = s.post("/v1/responses", R"({"input": "hi", "max_output_tokens": 1})").json();
  EXPECT_EQ(at(j, "status").as_string(), "incomplete");
  EXPECT_EQ(at(at(j, "incomplete_details"), "reason").as_string(), "max_output_tokens");
}

TEST(Responses, ContinuesStoredOnes) {
  Serving s(hello());
  const Json first = s.post("/v1/responses", R"({"input": "one", "instructions": "X"})").json();
  const std::string id = at(first, "id").as_string();
  EXPECT_EQ(s.send("GET", "/v1/responses/" + id).json(), first);
  const std::string second = R"({"input": "two", "previous_response_id": ")" + id + "\"}";
  const auto count = [&](const std::string& body) {
    return at(s.post("/v1/responses/input_tokens", body).json(), "input_tokens").as_int();
  };
  // [user]one[assistant]Hello there![user]two[assistant]
  EXPECT_EQ(count(second) - count(R"({"input": "two"})"), 9 + 11 + 12);
  EXPECT_EQ(s.post("/v1/responses", second).status, 200);
  EXPECT_EQ(s.send("DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(s.send("GET", "/v1/responses/" + id).status, 404);
  EXPECT_EQ(s.post("/v1/responses", second).status, 404);
  const Json unsaved = s.post("/v1/responses", R"({"input": "one", "store": false})").json();
  EXPECT_EQ(s.send("GET", "/v1/responses/" + at(unsaved, "id").as_string()).status, 404);
  EXPECT_EQ(s.post("/v1/responses", R"({"input": "one", "conversation": "c"})").status, 200);
  EXPECT_GT(count(R"({"input": "two", "conversation": {"id": "c"}})"),
            count(R"({"input": "two"})"));
}

TEST(Responses, ItemsOfEveryKind) {
  Serving s(hello());
  const Reply r = s.post("/v1/responses", R"({"input": [
      {"role": "user", "content": "a"}, {"role": "assistant", "content": "B"},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "c"}]},
      {"type": "reasoning", "summary": []},
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "1",
       "output": [{"type": "input_text", "text": "r"}]}]})");
  EXPECT_EQ(r.status, 200) << r.body;
}

TEST(Responses, RefusesWhatIsWrong) {
  Serving s(hello());
  for (const auto& [body, word] :
       {std::pair{"{}", "input"}, std::pair{R"({"input": 5})", "input"},
        std::pair{R"({"input": ""})", "messages"}, std::pair{R"({"input": [{}]})", "input[0]"},
        std::pair{R"({"input": [{"type": "magic"}]})", "magic"},
        std::pair{R"({"input": "a", "background": true})", "background"},
        std::pair{R"({"input": "a", "truncation": "auto"})", "truncation"},
        std::pair{R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens"},
        std::pair{R"({"input": "a", "tools": [{"type": "web_search"}]})", "tools[0]"},
        std::pair{R"({"input": "a", "text": {"format": {"type": "json_schema"}}})", "schema"},
        std::pair{R"({"input": "a", "previous_response_id": "x", "conversation": "y"})",
                  "conversation"}}) {
    const Reply r = s.post("/v1/responses", body);
    EXPECT_EQ(r.status, 400) << body << r.body;
    EXPECT_THAT(r.body, HasSubstr(word));
  }
}

TEST(Responses, ARunningOneCanBeCancelled) {
  Serving s(hello());
  std::atomic<bool> open{false};
  s.model->before_forward = [&] { open.wait(false); };
  const auto exchange = s.start("POST", "/v1/responses", R"({"input": "hi", "stream": true})");
  EXPECT_TRUE(exchange->wait_for("response.created"));
  open = true;
  open.notify_all();
  const Reply r = exchange->wait();
  const std::string id = at(at(r.events()[0], "response"), "id").as_string();
  const Reply late = s.post("/v1/responses/" + id + "/cancel", "");
  EXPECT_EQ(at(late.json(), "id").as_string(), id);
  EXPECT_EQ(s.post("/v1/responses/resp_unknown/cancel", "").status, 404);
}

TEST(TimedStore, IsBoundedByNumberBytesAndAge) {
  TimedStore<int> store({.max_entries = 2, .max_bytes = 100, .ttl_seconds = 10});
  const auto now = TimedStore<int>::Clock::now();
  store.put("a", std::make_shared<int>(1), 40, now);
  store.put("b", std::make_shared<int>(2), 40, now + std::chrono::seconds(5));
  store.put("c", std::make_shared<int>(3), 40, now + std::chrono::seconds(6));
  EXPECT_EQ(store.get("a", now + std::chrono::seconds(6)), nullptr);
  EXPECT_EQ(*store.get("b", now + std::chrono::seconds(6)), 2);
  store.put("d", std::make_shared<int>(4), 90, now + std::chrono::seconds(6));
  EXPECT_EQ(store.get("c", now + std::chrono::seconds(6)), nullptr);
  EXPECT_EQ(store.bytes(), 90);
  store.put("e", std::make_shared<int>(5), 101, now + std::chrono::seconds(6));
  EXPECT_EQ(store.get("e", now + std::chrono::seconds(6)), nullptr);
  EXPECT_EQ(store.get("d", now + std::chrono::seconds(17)), nullptr);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(Anthropic, WholeAnswer) {
  Serving s(thinking());
  const Reply r = s.post("/v1/messages", R"({"model": "claude", "max_tokens": 50, "system": [
      {"type": "text", "text": "S"}], "messages": [{"role": "user", "content": "hi"}],
      "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"}})");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = r.json();
  EXPECT_EQ(at(j, "type").as_string(), "message");
  EXPECT_EQ(at(j, "stop_reason").as_string(), "end_turn");
  EXPECT_TRUE(at(j, "stop_sequence").is_null());
  ASSERT_EQ(at(j, "content").size(), 2U);
  EXPECT_EQ(at(at(j, "content").as_array()[0], "thinking").as_string(), "Let me see");
  EXPECT_NE(at(at(j, "content").as_array()[0], "signature").as_string(), "");
  EXPECT_EQ(at(at(j, "content").as_array()[1], "text").as_string(), "Yes.");
  EXPECT_EQ(j.find("timings"), nullptr);
}

TEST(Anthropic, EventsInOrder) {
  Serving s(thinking());
  const Reply r = s.post("/v1/messages", R"({"max_tokens": 50, "stream": true,
      "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]})");
  std::vector<std::string> names = r.event_names();
  names.erase(std::unique(names.begin(), names.end()), names.end());
  EXPECT_THAT(names, ElementsAre("message_start", "content_block_start", "content_block_delta",
                                 "content_block_stop", "content_block_start", "content_block_delta",
                                 "content_block_stop", "message_delta", "message_stop"));
  const auto events = r.events();
  const Json& start = at(events[0], "message");
  EXPECT_EQ(at(start, "content").size(), 0U);
  EXPECT_GT(at(at(start, "usage"), "input_tokens").as_int(), 0);
  std::vector<std::string> deltas;
  for (const Json& e : events) {
    if (at(e, "type").as_string() == "content_block_delta") {
      deltas.push_back(at(at(e, "delta"), "type").as_string());
    }
  }
  deltas.erase(std::unique(deltas.begin(), deltas.end()), deltas.end());
  EXPECT_THAT(deltas, ElementsAre("thinking_delta", "signature_delta", "text_delta"));
  EXPECT_EQ(at(at(events[events.size() - 2], "usage"), "output_tokens").as_int(), 6);
}

TEST(Anthropic, StopSequencesToolsAndCounts) {
  Serving s(hello());
  const Json stopped = s.post("/v1/messages", R"({"max_tokens": 9, "stop_sequences": ["there"],
                              "messages": [{"role": "user", "content": "hi"}]})")
                           .json();
  EXPECT_EQ(at(stopped, "stop_reason").as_string(), "stop_sequence");
  EXPECT_EQ(at(stopped, "stop_sequence").as_string(), "there");
  const Json cut = s.post("/v1/messages", R"({"max_tokens": 1,
                          "messages": [{"role": "user", "content": "hi"}]})")
                       .json();
  EXPECT_EQ(at(cut, "stop_reason").as_string(), "max_tokens");
  const char* conversation = R"("messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": true,
        "content": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "go"}]}],
      "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}])";
  const Json counted =
      s.post("/v1/messages/count_tokens", std::string("{") + conversation + "}").json();
  EXPECT_EQ(counted.size(), 1U);
  EXPECT_GT(at(counted, "input_tokens").as_int(), 0);
  EXPECT_EQ(
      s.post("/v1/messages", std::string(R"({"max_tokens": 3, )") + conversation + "}").status,
      200);
  EXPECT_EQ(s.post("/v1/messages", R"({"max_tokens": 3, "messages": []})").status, 200);
}

TEST(Anthropic, ErrorsHaveTheirOwnEnvelope) {
  Serving s(hello());
  for (const auto& [body, word] :
       {std::pair{"{}", "messages"}, std::pair{"[", "JSON"},
        std::pair{R"({"messages": 5})", "messages"},
        std::pair{R"({"messages": [{"role": "bard", "content": "x"}]})", "role"},
        std::pair{R"({"messages": [{"role": "user"}]})", "content"},
        std::pair{R"({"messages": [{"role": "user", "content": [{"type": "x"}]}]})", "'x'"},
        std::pair{R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": "y"})",
                  "max_tokens"},
        std::pair{R"({"messages": [{"role": "user", "content": "x"}], "thinking": {"type": "z"}})",
                  "thinking"}}) {
    const Reply r = s.post("/v1/messages", body);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(at(r.json(), "type").as_string(), "error");
    EXPECT_EQ(at(at(r.json(), "error"), "type").as_string(), "invalid_request_error");
    EXPECT_THAT(r.body, HasSubstr(word));
  }
  const Reply image = s.post("/v1/messages", R"({"messages": [{"role": "user", "content":
      [{"type": "image", "source": {}}]}]})");
  EXPECT_EQ(image.status, 501);
  EXPECT_THAT(image.body, HasSubstr("image input is not supported"));
}

TEST(Infill, LaysOutPrefixSuffixAndMiddle) {
  Serving::Options o;
  o.script = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "x"};
  Serving s(o);
  const Reply r = s.post("/infill", R"({"input_prefix": "ab", "input_suffix": "cd", "prompt": "e",
      "input_extra": [{"filename": "f", "text": "g"}], "n_predict": 1})");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(at(r.json(), "prompt").as_string(),
            "<s>g\n<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>e");
  for (const char* body :
       {"{}", R"({"input_prefix": "a"})", R"({"input_prefix": 5, "input_suffix": "b"})",
        R"({"input_prefix": "a", "input_suffix": "b", "input_extra": 5})",
        R"({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "x"}]})",
        R"({"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": 5}]})",
        R"({"input_prefix": "a<|fim_middle|>", "input_suffix": "b"})"}) {
    EXPECT_EQ(s.post("/infill", body).status, 400) << body;
  }
  Serving none(hello());
  const Reply refused = none.post("/infill", R"({"input_prefix": "a", "input_suffix": "b"})");
  EXPECT_EQ(refused.status, 501);
  EXPECT_THAT(refused.body, HasSubstr("prefix, suffix, middle"));
}

TEST(ResumableStream, GoesOnWithoutItsClient) {
  Serving s(hello());
  std::atomic<bool> open{false};
  s.model->before_forward = [&] { open.wait(false); };
  const auto first = s.start("POST", "/v1/chat/completions",
                             R"({"messages": [{"role": "user", "content": "hi"}], "stream": true})",
                             {{"x-conversation-id", "a/b"}});
  first->close();
  open = true;
  open.notify_all();
  const Reply resumed = s.send("GET", "/v1/stream?conv_id=a/b&from=0");
  EXPECT_EQ(resumed.status, 200);
  EXPECT_THAT(resumed.body, HasSubstr("there"));
  EXPECT_TRUE(resumed.ends_with_done());
  const Reply tail = s.send("GET", "/v1/stream?conv_id=a/b&from=10");
  EXPECT_EQ(tail.body, resumed.body.substr(10));
  EXPECT_EQ(s.send("GET", "/v1/stream?conv_id=a/b&from=99999").status, 400);
  EXPECT_EQ(s.send("GET", "/v1/stream?conv_id=a/b&from=x").status, 400);
  EXPECT_EQ(s.send("GET", "/v1/stream?conv_id=other").status, 404);
  const Json found = s.post("/v1/streams/lookup", R"({"conversation_ids": ["a/b", "zz"]})").json();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(at(found.as_array()[0], "is_done").as_bool());
  EXPECT_EQ(at(found.as_array()[0], "total_bytes").as_int(),
            static_cast<int64_t>(resumed.body.size()));
  EXPECT_EQ(s.send("DELETE", "/v1/stream?conv_id=a/b").status, 204);
  EXPECT_EQ(s.send("DELETE", "/v1/stream?conv_id=a/b").status, 204);
  EXPECT_EQ(s.send("GET", "/v1/stream?conv_id=a/b").status, 404);
}

TEST(Vertex, AnswersInstancesInOrder) {
  Serving::Options o = hello();
  o.generation.vertex_predict_path = "/predict";
  o.queue_depth = 100;
  Serving s(o);
  std::string instances;
  for (int i = 0; i < 12; ++i) {
    instances += R"({"@requestFormat": "chatCompletions", "stream": true,
                     "messages": [{"role": "user", "content": "hi"}]},)";
  }
  instances += R"({"@requestFormat": "completion", "prompt": 5},
                  {"@requestFormat": "/predict"}, {"a": 1}, 7)";
  const Reply r = s.post("/predict", "{\"instances\": [" + instances + "]}");
  ASSERT_EQ(r.status, 200) << r.body;
  const Json predictions = at(r.json(), "predictions");
  ASSERT_EQ(predictions.size(), 16U);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(at(predictions.as_array()[i], "object").as_string(), "chat.completion");
  }
  for (size_t i = 12; i < 16; ++i) EXPECT_NE(predictions.as_array()[i].find("error"), nullptr);
  EXPECT_EQ(at(s.post("/predict", R"({"instances": []})").json(), "predictions").size(), 0U);
  EXPECT_EQ(s.post("/predict", R"({"instances": 1})").status, 400);
  EXPECT_EQ(s.post("/predict", "{}").status, 400);
}

}  // namespace
}  // namespace mlxcel::serve::testing
