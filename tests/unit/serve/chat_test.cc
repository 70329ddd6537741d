// POST /v1/chat/completions.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "serving.h"

namespace mlxcel::serve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHi = R"("messages": [{"role": "user", "content": "hi"}])";

const Json& at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) throw Error(Code::NotFound, key);
  return *value;
}

Serving::Options hello() {
  Serving::Options o;
  o.script = {"Hello", " there", "!", " Bye"};
  return o;
}

Serving::Options thinking() {
  Serving::Options o;
  o.script = {"<think>", "Let me", " see", "</think>", "Yes", "."};
  return o;
}

std::string chat(const std::string& more) { return std::string("{") + kHi + more + "}"; }

TEST(Chat, ShapeOfAWholeAnswer) {
  Serving s(hello());
  const Reply r = s.post("/v1/chat/completions", chat(R"(, "model": "gpt-4.1")"));
  ASSERT_EQ(r.status, 200) << r.body;
  const Json j = r.json();
  EXPECT_EQ(at(j, "object").as_string(), "chat.completion");
  EXPECT_EQ(at(j, "model").as_string(), "scripted");
  EXPECT_THAT(at(j, "id").as_string(), HasSubstr("chatcmpl-"));
  const Json& choice = at(j, "choices").as_array()[0];
  EXPECT_EQ(at(at(choice, "message"), "role").as_string(), "assistant");
  EXPECT_EQ(at(at(choice, "message"), "content").as_string(), "Hello there! Bye");
  EXPECT_EQ(at(choice, "finish_reason").as_string(), "stop");
  const Json& usage = at(j, "usage");
  EXPECT_EQ(at(usage, "total_tokens").as_int(),
            at(usage, "prompt_tokens").as_int() + at(usage, "completion_tokens").as_int());
  EXPECT_NE(at(usage, "prompt_tokens_details").find("cached_tokens"), nullptr);
  EXPECT_EQ(at(at(s.post("/chat/completions", chat(R"(, "max_tokens": 2)")).json(), "choices")
                   .as_array()[0],
               "finish_reason")
                .as_string(),
            "length");
}

TEST(Chat, OrderAndShapeOfChunks) {
  Serving s(hello());
  const Reply r = s.post("/v1/chat/completions", chat(R"(, "stream": true,
      "stream_options": {"include_usage": true}, "timings_per_token": true)"));
  ASSERT_TRUE(r.streamed);
  EXPECT_TRUE(r.ends_with_done());
  const auto events = r.events();
  ASSERT_GE(events.size(), 4U);
  const Json& first = at(at(events[0], "choices").as_array()[0], "delta");
  EXPECT_EQ(first.dump(), R"({"role":"assistant","content":null})");
  EXPECT_EQ(events[0].find("timings"), nullptr);
  std::string content;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(at(events[i], "object").as_string(), "chat.completion.chunk");
    EXPECT_EQ(at(events[i], "id"), at(events[0], "id"));
    const bool last = i + 1 == events.size();
    EXPECT_EQ(events[i].find("usage") != nullptr, last);
    EXPECT_EQ(at(events[i], "choices").size(), last ? 0U : 1U);
    if (last) continue;
    const Json& choice = at(events[i], "choices").as_array()[0];
    const bool finish = i + 2 == events.size();
    EXPECT_EQ(at(choice, "finish_reason").is_null(), !finish);
    if (finish) {
      EXPECT_EQ(at(choice, "delta").size(), 0U);
    }
    if (const Json* c = at(choice, "delta").find("content"); c != nullptr && c->is_string()) {
      content += c->as_string();
      EXPECT_NE(events[i].find("timings"), nullptr);
    }
  }
  EXPECT_EQ(content, "Hello there! Bye");
  EXPECT_NE(events.back().find("timings"), nullptr);
}

TEST(Chat, ThinkingIsSplitFromTheAnswer) {
  for (const auto& [format, reasoning, content] :
       {std::tuple{"auto", "Let me see", "Yes."}, std::tuple{"deepseek", "Let me see", "Yes."},
        std::tuple{"none", "", "<think>Let me see</think>Yes."},
        std::tuple{"deepseek-legacy", "Let me see", "<think>Let me see</think>Yes."}}) {
    Serving s(thinking());
    const std::string more = std::string(R"(, "reasoning_format": ")") + format + "\"";
    const Json message = at(
        at(s.post("/v1/chat/completions", chat(more)).json(), "choices").as_array()[0], "message");
    EXPECT_EQ(at(message, "content").as_string(), content);
    EXPECT_EQ(message.find("reasoning_content") != nullptr, std::string(reasoning) != "");
    std::string streamed_reasoning;
    std::string streamed_content;
    const Reply r = s.post("/v1/chat/completions", chat(more + R"(, "stream": true)"));
    for (const Json& e : r.events()) {
      const Json& delta = at(at(e, "choices").as_array()[0], "delta");
      if (const Json* t = delta.find("reasoning_content")) streamed_reasoning += t->as_string();
      const Json* t = delta.find("content");
      if (t != nullptr && t->is_string()) streamed_content += t->as_string();
    }
    EXPECT_EQ(streamed_reasoning, reasoning);
    EXPECT_EQ(streamed_content, content);
  }
}

TEST(Chat, ThinkingCutByTheLimitLeavesNoContent) {
  Serving s(thinking());
  const Json choice =
      at(s.post("/v1/chat/completions", chat(R"(, "max_tokens": 3)")).json(), "choices")
          .as_array()[0];
  EXPECT_EQ(at(at(choice, "message"), "content").as_string(), "");
  EXPECT_EQ(at(at(choice, "message"), "reasoning_content").as_string(), "Let me see");
  EXPECT_EQ(at(choice, "finish_reason").as_string(), "length");
}

/// Thinks without end unless something writes the closing text, which ends in a line end.
Serving::Options endless_thinking() {
  Serving::Options o;
  o.script = words("<think> w1 w2 w3 w4 w5 w6 w7 w8 w9");
  o.script.insert(o.script.end(), {"\n", "Answer", "."});
  return o;
}

TEST(Chat, ABudgetEndsThinking) {
  Serving s(endless_thinking());
  s.model->before_forward = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  const auto message = [&](const std::string& more) {
    const Json j = s.post("/v1/chat/completions", chat(more)).json();
    return at(at(j, "choices").as_array()[0], "message");
  };
  const Json free = message("");
  EXPECT_EQ(at(free, "content").as_string(), "");
  EXPECT_THAT(at(free, "reasoning_content").as_string(), HasSubstr("Answer"));
  const Json limited = message(R"(, "thinking_budget_tokens": 3)");
  EXPECT_EQ(at(limited, "content").as_string(), "Answer.");
  EXPECT_THAT(at(limited, "reasoning_content").as_string(), ::testing::StartsWith("w1 w2"));
  EXPECT_THAT(at(limited, "reasoning_content").as_string(), Not(HasSubstr("w8")));
  s.defaults.reasoning_budget = 1;
  EXPECT_EQ(at(message(""), "content").as_string(), "Answer.");
  EXPECT_EQ(at(message(R"(, "thinking_budget_tokens": -1)"), "content").as_string(), "");
}

TEST(Chat, AnotherRequestCanEndThinking) {
  Serving s(endless_thinking());
  std::atomic<int> allowed{2};
  s.model->before_forward = [&] {
    while (allowed.load() <= 0) std::this_thread::yield();
    --allowed;
  };
  const auto control = [&](const std::string& id) {
    return s.post("/v1/chat/completions/control",
                  R"({"action": "reasoning_end", "id": ")" + id + "\"}");
  };
  const auto exchange = s.start("POST", "/v1/chat/completions",
                                chat(R"(, "stream": true, "reasoning_control": true)"));
  // The scripted model is faster than any client: it waits for its third forward meanwhile.
  ASSERT_TRUE(exchange->wait_for("w1"));
  const std::string id = at(exchange->so_far().events().at(0), "id").as_string();
  EXPECT_FALSE(at(control("chatcmpl-unknown").json(), "success").as_bool());
  EXPECT_TRUE(at(control(id).json(), "success").as_bool());
  allowed = 1000;
  const Reply r = exchange->wait();
  EXPECT_THAT(r.body, HasSubstr("\"content\":\"Answer"));
  EXPECT_FALSE(at(control(id).json(), "success").as_bool());  // it is complete
  EXPECT_EQ(s.post("/v1/chat/completions/control", "{}").status, 400);
  EXPECT_EQ(s.post("/v1/chat/completions/control", R"({"id": "x", "action": "sing"})").status, 400);
}

TEST(Chat, LogprobsJoinToTheContent) {
  Serving s(hello());
  for (const char* stream : {"false", "true"}) {
    const Reply r = s.post("/v1/chat/completions",
                           chat(std::string(R"(, "logprobs": true, "stream": )") + stream));
    std::string joined;
    const auto collect = [&](const Json& choice) {
      const Json* logprobs = choice.find("logprobs");
      if (logprobs == nullptr || logprobs->is_null()) return;
      for (const Json& token : at(*logprobs, "content").as_array()) {
        joined += at(token, "token").as_string();
        EXPECT_EQ(at(token, "top_logprobs").size(), 0U);
        EXPECT_LE(at(token, "logprob").as_double(), 0);
        EXPECT_EQ(at(token, "bytes").size(), at(token, "token").as_string().size());
      }
    };
    if (r.streamed) {
      for (const Json& e : r.events()) collect(at(e, "choices").as_array()[0]);
    } else {
      collect(at(r.json(), "choices").as_array()[0]);
    }
    EXPECT_EQ(joined, "Hello there! Bye");
  }
  const Json top =
      s.post("/v1/chat/completions", chat(R"(, "logprobs": true, "top_logprobs": 4)")).json();
  const Json& list = at(at(at(top, "choices").as_array()[0], "logprobs"), "content");
  EXPECT_EQ(at(list.as_array()[0], "top_logprobs").size(), 4U);
  EXPECT_EQ(s.post("/v1/chat/completions", chat(R"(, "top_logprobs": 4)")).status, 400);
}

TEST(Chat, SeveralChoices) {
  Serving s(hello());
  const Json j = s.post("/v1/chat/completions", chat(R"(, "n": 3)")).json();
  ASSERT_EQ(at(j, "choices").size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(at(at(j, "choices").as_array()[i], "index").as_int(), static_cast<int64_t>(i));
  }
  EXPECT_EQ(at(at(j, "usage"), "completion_tokens").as_int(), 12);
}

std::string prompt_of(Serving& s, const std::string& body) {
  return at(at(s.post("/v1/chat/completions", body).json(), "__verbose"), "prompt").as_string();
}

TEST(Chat, PromptsOfEveryKindOfMessage) {
  Serving::Options o = hello();
  o.generation.verbose = true;
  Serving s(o);
  EXPECT_EQ(prompt_of(s, R"({"messages": [{"role": "system", "content": "S"},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]})"),
            "[system]S[user]ab[assistant]c[user]d[assistant]");
  EXPECT_EQ(prompt_of(s, R"({"messages": [{"role": "developer", "content": "S"},
                                          {"role": "user", "content": "d"}]})"),
            "[system]S[user]d[assistant]");
  // A last assistant message is continued.
  EXPECT_EQ(prompt_of(s, R"({"messages": [{"role": "user", "content": "d"},
      {"role": "assistant", "content": [{"type": "text", "text": "The"}]}]})"),
            "[user]d[assistant]The");
  EXPECT_EQ(prompt_of(s, R"({"messages": [{"role": "user", "content": "d"}],
                             "add_generation_prompt": false})"),
            "[user]d");
  // Broken arguments of an earlier call do no harm.
  EXPECT_THAT(prompt_of(s, R"({"messages": [{"role": "user", "content": "d"},
      {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "f", "arguments": "{"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "r"}, {"role": "user", "content": "e"}]})"),
              HasSubstr("[tool]r[user]e"));
}

TEST(Chat, MalformedMessagesAreRefusedWithTheirPlace) {
  Serving s(hello());
  for (const char* messages :
       {"null", "5", "\"hi\"", "[]", "[5]", "[null]", "[{}]", R"([{"role": "user"}])",
        R"([{"role": "user", "content": 5}])", R"([{"role": "bard", "content": "x"}])",
        R"([{"role": 5, "content": "x"}])", R"([{"role": "user", "content": [5]}])",
        R"([{"role": "user", "content": [{"type": "text"}]}])",
        R"([{"role": "user", "content": [{"type": "hologram", "text": "x"}]}])",
        R"([{"role": "user", "content": "  "}])",
        R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"}])",
        R"([{"role": "assistant", "tool_calls": 5}])"}) {
    for (const char* stream : {"", R"(, "stream": true)"}) {
      const Reply r =
          s.post("/v1/chat/completions", std::string(R"({"messages": )") + messages + stream + "}");
      EXPECT_EQ(r.status, 400) << messages;
      EXPECT_FALSE(r.streamed);
      EXPECT_THAT(r.json().find("error")->find("message")->as_string(), HasSubstr("messages"));
    }
  }
  const Reply image = s.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content":
      [{"type": "image_url", "image_url": {"url": "x"}}]}]})");
  EXPECT_EQ(image.status, 501);
  EXPECT_THAT(image.body, HasSubstr("image input is not supported"));
}

TEST(Chat, NullMeansNotGivenAndWrongTypesAreNamed) {
  Serving s(hello());
  std::string all;
  for (const char* field : {"temperature",
                            "top_p",
                            "max_tokens",
                            "max_completion_tokens",
                            "stop",
                            "seed",
                            "n",
                            "tools",
                            "tool_choice",
                            "response_format",
                            "logprobs",
                            "top_logprobs",
                            "stream_options",
                            "frequency_penalty",
                            "user",
                            "reasoning_effort",
                            "reasoning_format",
                            "stream",
                            "parallel_tool_calls",
                            "chat_template_kwargs",
                            "logit_bias"}) {
    const std::string member = std::string(", \"") + field + "\": null";
    EXPECT_EQ(s.post("/v1/chat/completions", chat(member)).status, 200) << field;
    all += member;
    for (const char* wrong : {"{\"a\": [[]]}", "-7.5"}) {
      const Reply r =
          s.post("/v1/chat/completions", chat(std::string(", \"") + field + "\": " + wrong));
      EXPECT_TRUE(r.status == 200 || r.status == 400) << field << r.status;
      if (r.status == 400) {
        EXPECT_THAT(r.body, HasSubstr(field));
      }
    }
  }
  EXPECT_EQ(s.post("/v1/chat/completions", chat(all)).status, 200);
  EXPECT_EQ(s.post("/v1/chat/completions", chat(R"(, "max_tokens": 1.5)")).status, 400);
}

TEST(Chat, ToolsAreRenderedUnlessSwitchedOff) {
  Serving::Options o = hello();
  o.generation.verbose = true;
  o.chat_template = "{{ messages[0].content }}{% if tools %}{{ tools | tojson }}{% endif %}";
  Serving s(o);
  const char* tool = R"("tools": [{"type": "function", "function": {"name": "f",
      "description": null}}])";
  EXPECT_THAT(prompt_of(s, chat(std::string(", ") + tool)), HasSubstr("\"name\": \"f\""));
  EXPECT_EQ(prompt_of(s, chat(std::string(", \"tool_choice\": \"none\", ") + tool)), "hi");
  EXPECT_EQ(prompt_of(s, chat(R"(, "tools": [])")), "hi");
  const auto status = [&](const std::string& more) {
    return s.post("/v1/chat/completions", chat(more)).status;
  };
  EXPECT_EQ(status(R"(, "tool_choice": "required")"), 400);
  EXPECT_EQ(status(std::string(R"(, "tool_choice": "sometimes", )") + tool), 400);
  EXPECT_EQ(status(std::string(R"(, "tool_choice": {"type": "function",
      "function": {"name": "g"}}, )") +
                   tool),
            400);
  EXPECT_EQ(status(R"(, "tools": [{"type": "function"}])"), 400);
  EXPECT_EQ(status(R"(, "tools": {})"), 400);
}

TEST(Chat, TemplateVariablesAndEffort) {
  Serving::Options o = hello();
  o.generation.verbose = true;
  o.chat_template =
      "{{ messages[0].content }}|{{ enable_thinking }}|{{ reasoning_effort }}|{{ x }}";
  Serving s(o);
  s.defaults.chat_template_kwargs.set("x", "default");
  EXPECT_EQ(prompt_of(s, chat("")), "hi|||default");
  EXPECT_EQ(prompt_of(s, chat(R"(, "reasoning_effort": "high")")), "hi|True|high|default");
  EXPECT_EQ(prompt_of(s, chat(R"(, "reasoning": {"effort": "none"})")), "hi|False||default");
  EXPECT_EQ(prompt_of(s, chat(R"(, "extra_body": {"chat_template_kwargs": {"x": "mine"}})")),
            "hi|||mine");
}

TEST(Chat, CountsTokensLikeTheGeneration) {
  Serving s(hello());
  const Json whole = s.post("/v1/chat/completions", chat("")).json();
  const Json count = s.post("/v1/chat/completions/input_tokens", chat("")).json();
  EXPECT_EQ(at(count, "input_tokens"), at(at(whole, "usage"), "prompt_tokens"));
  EXPECT_EQ(at(count, "object").as_string(), "response.input_tokens");
}

TEST(Chat, AClientThatLeavesFreesItsSlotWithinAStep) {
  Serving::Options o = hello();
  Serving s(o);
  std::atomic<bool> open{false};
  std::atomic<int> forwards{0};
  s.model->before_forward = [&] {
    ++forwards;
    open.wait(false);
  };
  const auto exchange = s.start("POST", "/v1/chat/completions", chat(R"(, "stream": true)"));
  EXPECT_TRUE(exchange->started());  // headers before the prefill ends
  EXPECT_TRUE(exchange->wait_for("assistant"));
  EXPECT_GT(exchange->ping.count(), 0);
  while (forwards == 0) std::this_thread::yield();
  // The forward may begin before the thread that submitted the request has noted its slot.
  for (int i = 0; i < 2000 && s.state.slots->num_busy() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(s.state.slots->num_busy(), 1);
  exchange->close();
  open = true;
  open.notify_all();
  for (int i = 0; i < 2000 && s.state.slots->num_busy() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(s.state.slots->num_busy(), 0);
  EXPECT_LE(forwards, 2);
}

TEST(Chat, AFullQueueIsA503WithRetryAfter) {
  Serving::Options o = hello();
  o.num_slots = 1;
  o.queue_depth = 1;
  Serving s(o);
  std::atomic<bool> open{false};
  s.model->before_forward = [&] { open.wait(false); };
  std::vector<std::shared_ptr<FakeExchange>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(s.start("POST", "/v1/chat/completions", chat("")));
  }
  const Reply refused = s.post("/v1/chat/completions", chat(R"(, "stream": true)"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_FALSE(refused.streamed);
  EXPECT_THAT(refused.headers, ::testing::Contains(::testing::Pair("Retry-After", "1")));
  open = true;
  open.notify_all();
  for (const auto& exchange : waiting) EXPECT_EQ(exchange->wait().status, 200);
}

TEST(Chat, ADestroyedEngineEndsItsStreamsWithAnError) {
  Serving s(hello());
  std::atomic<bool> open{false};
  s.model->before_forward = [&] { open.wait(false); };
  const auto exchange = s.start("POST", "/v1/chat/completions", chat(R"(, "stream": true)"));
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open = true;
    open.notify_all();
  });
  s.state.model.engine.reset();
  release.join();
  const Reply r = exchange->wait();
  EXPECT_THAT(r.body, HasSubstr("shutting down"));
  EXPECT_THAT(r.body, Not(HasSubstr("[DONE]")));
}

}  // namespace
}  // namespace mlxcel::serve::testing
