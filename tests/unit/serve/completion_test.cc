// POST /completion and /v1/completions.
#include <gmock/gmock.h>

#include "serving.h"

namespace mlxcel::serve::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Serving::Options alphabet() {
  Serving::Options o;
  o.script = words(" L M N O P Q R S");
  return o;
}

std::string text_of(const Reply& stream) {
  std::string text;
  for (const Json& event : stream.events()) {
    if (const Json* content = event.find("content")) text += content->as_string();
    if (const Json* choices = event.find("choices"); choices != nullptr && choices->size() > 0) {
      text += choices->as_array()[0].find("text")->as_string();
    }
  }
  return text;
}

const Json& at(const Json& json, const char* key) {
  const Json* value = json.find(key);
  if (value == nullptr) throw Error(Code::NotFound, key);
  return *value;
}

TEST(Completion, HasEveryFieldOfTheNativeForm) {
  Serving s(alphabet());
  const Reply reply =
      s.post("/completion", R"({"prompt": "ab", "n_predict": 3, "temperature": 0})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json j = reply.json();
  EXPECT_EQ(at(j, "content").as_string(), " L M N");
  EXPECT_EQ(at(j, "prompt").as_string(), "<s>ab");
  EXPECT_EQ(at(j, "stop_type").as_string(), "limit");
  EXPECT_EQ(at(j, "tokens_predicted").as_int(), 3);
  EXPECT_EQ(at(j, "tokens_evaluated").as_int(), 3);
  EXPECT_EQ(at(j, "tokens").size(), 0U);
  EXPECT_FALSE(at(j, "truncated").as_bool());
  EXPECT_EQ(at(at(j, "generation_settings"), "n_predict").as_int(), 3);
  EXPECT_EQ(at(at(j, "timings"), "prompt_n").as_int(), 3);
  EXPECT_EQ(at(at(j, "timings"), "predicted_n").as_int(), 3);
  for (const char* key :
       {"index", "id_slot", "model", "has_new_line", "stopping_word", "tokens_cached", "stop"}) {
    EXPECT_NE(j.find(key), nullptr) << key;
  }
  const Json whole = s.post("/completions", R"({"prompt": "ab", "return_tokens": true})").json();
  EXPECT_EQ(at(whole, "content").as_string(), " L M N O P Q R S");
  EXPECT_EQ(at(whole, "stop_type").as_string(), "eos");
  EXPECT_EQ(at(whole, "tokens").size(), 8U);
}

TEST(Completion, StreamSaysWhatTheWholeAnswerSays) {
  Serving s(alphabet());
  const Reply reply = s.post("/completion", R"({"prompt": "ab", "stream": true})");
  EXPECT_TRUE(reply.streamed);
  EXPECT_THAT(reply.content_type, HasSubstr("text/event-stream"));
  EXPECT_EQ(text_of(reply), " L M N O P Q R S");
  EXPECT_THAT(reply.body, ::testing::Not(HasSubstr("[DONE]")));
  const auto events = reply.events();
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(at(events[i], "stop").as_bool());
  EXPECT_TRUE(at(events.back(), "stop").as_bool());
  EXPECT_EQ(at(events.back(), "content").as_string(), "");
  EXPECT_NE(events.back().find("generation_settings"), nullptr);
}

TEST(Completion, StopStringsNeverLeak) {
  Serving s(alphabet());
  struct Case {
    const char* stop;
    const char* text;
  };
  for (const Case& c : {Case{"O P Q", " L M N "}, Case{" O P Q", " L M N"}, Case{"N O", " L M "},
                        Case{"P", " L M N O "}, Case{" L", ""}, Case{"S", " L M N O P Q R "},
                        Case{"S T", " L M N O P Q R S"}}) {
    for (const char* stream : {"false", "true"}) {
      const std::string body = std::string(R"({"prompt": "ab", "stop": [")") + c.stop +
                               R"("], "stream": )" + stream + "}";
      const Reply reply = s.post("/completion", body);
      const Json last = reply.streamed ? reply.events().back() : reply.json();
      EXPECT_EQ(reply.streamed ? text_of(reply) : at(last, "content").as_string(), c.text) << body;
      const bool matched = std::string_view(c.stop) != "S T";
      EXPECT_EQ(at(last, "stop_type").as_string(), matched ? "word" : "eos");
      EXPECT_EQ(at(last, "stopping_word").as_string(), matched ? c.stop : "");
    }
  }
}

TEST(Completion, ACharacterCutByTheLimitIsReplacedOnce) {
  Serving::Options o;
  o.script = {"\xF0", "\x9F", "\x98", "\x80"};
  Serving s(o);
  for (const char* n : {"1", "2", "3"}) {
    const std::string body = std::string(R"({"prompt": "ab", "n_predict": )") + n;
    const Json whole = s.post("/completion", body + "}").json();
    EXPECT_EQ(at(whole, "content").as_string(), "\uFFFD");
    EXPECT_EQ(text_of(s.post("/completion", body + R"(, "stream": true})")), "\uFFFD");
  }
  EXPECT_EQ(at(s.post("/completion", R"({"prompt": "ab"})").json(), "content").as_string(),
            "\U0001F600");
}

TEST(Completion, PromptsMayBeTextsTokensAndMixtures) {
  Serving s(alphabet());
  const auto prompt = [&](const char* p) {
    const Reply r = s.post("/completion", std::string(R"({"n_predict": 1, "prompt": )") + p + "}");
    EXPECT_EQ(r.status, 200) << p << r.body;
    return r.json();
  };
  EXPECT_EQ(at(prompt("[256, 97]"), "prompt").as_string(), "<s>a");
  EXPECT_EQ(at(prompt(R"(["a", 98])"), "prompt").as_string(), "<s>ab");
  EXPECT_EQ(at(prompt(R"([97, "b", 99])"), "prompt").as_string(), "abc");
  EXPECT_EQ(at(prompt(R"({"prompt_string": "x"})"), "prompt").as_string(), "<s>x");
  EXPECT_EQ(at(prompt(R"("")"), "prompt").as_string(), "<s>");
  const Json batch = prompt(R"(["a", [98], ["c", 100], {"prompt_string": "e"}])");
  ASSERT_EQ(batch.size(), 4U);
  EXPECT_EQ(at(batch.as_array()[1], "prompt").as_string(), "b");
  EXPECT_EQ(at(batch.as_array()[3], "prompt").as_string(), "<s>e");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(at(batch.as_array()[i], "index").as_int(), static_cast<int64_t>(i));
  }
}

TEST(Completion, ALongListOfPromptsWaitsForItsPlaceInTheQueue) {
  Serving::Options o = alphabet();
  o.queue_depth = 1;
  Serving s(o);
  std::string list;
  for (int i = 0; i < 20; ++i) list += std::string(i > 0 ? "," : "") + "\"a\"";
  const Reply r = s.post("/completion", "{\"prompt\": [" + list + "], \"n_predict\": 2}");
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.json().size(), 20U);
}

TEST(Completion, RefusesWhatIsWrongAndNamesIt) {
  Serving s(alphabet());
  struct Case {
    const char* body;
    const char* word;
    int status = 400;
  };
  for (const char* path : {"/completion", "/v1/completions"}) {
    for (const Case& c :
         {Case{"{", "JSON"},
          Case{"[]", "object"},
          Case{"{}", "prompt"},
          Case{R"({"prompt": 5})", "prompt"},
          Case{R"({"prompt": []})", "prompt"},
          Case{R"({"prompt": [[]]})", "prompt"},
          Case{R"({"prompt": [99999]})", "99999"},
          Case{R"({"prompt": [1.5]})", "prompt"},
          Case{R"({"prompt": "a", "n": 0})", "'n'"},
          Case{R"({"prompt": "a", "temperature": "hot"})", "temperature"},
          Case{R"({"prompt": "a", "temperature": 1e999})", "JSON"},
          Case{R"({"prompt": "a", "temperature": 1e300})", "temperature"},
          Case{R"({"prompt": "a", "max_tokens": 1.5})", "max_tokens"},
          Case{R"({"prompt": "a", "top_p": 2})", "top_p"},
          Case{R"({"prompt": "a", "top_k": 99999999999})", "top_k"},
          Case{R"({"prompt": "a", "stop": 5})", "stop"},
          Case{R"({"prompt": "a", "stop": [5]})", "stop"},
          Case{R"({"prompt": "a", "stream": "yes"})", "stream"},
          Case{R"({"prompt": "a", "stream_options": {"include_usage": 1}})", "include_usage"},
          Case{R"({"prompt": "a", "logit_bias": {"99999": 1}})", "logit_bias"},
          Case{R"({"prompt": "a", "logit_bias": [[1, "x"]]})", "logit_bias"},
          Case{R"({"prompt": "a", "samplers": ["nope"]})", "samplers"},
          Case{R"({"prompt": "a", "seed": "x"})", "seed"},
          Case{R"({"prompt": "a", "id_slot": 7})", "id_slot"},
          Case{R"({"prompt": "a", "response_format": {"type": "xml"}})", "response_format"},
          Case{R"({"prompt": "a", "grammar": "root ::= \"a"})", "line 1, column 10"},
          Case{R"({"prompt": "a", "json_schema": {"pattern": "(?<=a)b"}})", "#/pattern"},
          Case{R"({"prompt": "a", "json_schema": {"$ref": "https://x.org/a.json"}})", "grammar"},
          Case{R"({"prompt": "a", "json_schema": {}, "grammar": "root ::= \"a\""})", "excludes"},
          Case{R"({"prompt": "a", "response_format": {"type": "json_schema"}})", "schema"},
          Case{R"({"prompt": "a", "response_format": {"type": "json_schema", "json_schema":
                 {"schema": {"uniqueItems": true}}}})",
               "uniqueItems"},
          Case{R"({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}})",
               "image input is not supported", 501}}) {
      const Reply r = s.post(path, c.body);
      EXPECT_EQ(r.status, c.status) << path << " " << c.body << r.body;
      EXPECT_THAT(r.json().find("error")->find("message")->as_string(), HasSubstr(c.word));
      EXPECT_FALSE(r.streamed);
    }
  }
  std::string deep(200, '[');
  deep += std::string(200, ']');
  EXPECT_EQ(s.post("/completion", "{\"prompt\": " + deep + "}").status, 400);
  EXPECT_EQ(s.post("/completion", "{\"prompt\": \"\xff\"}").status, 400);
}

TEST(Completion, NullMeansNotGiven) {
  Serving s(alphabet());
  for (const char* field : {"temperature",
                            "top_p",
                            "max_tokens",
                            "n_predict",
                            "stop",
                            "seed",
                            "n",
                            "grammar",
                            "json_schema",
                            "response_format",
                            "logprobs",
                            "stream_options",
                            "frequency_penalty",
                            "user",
                            "logit_bias",
                            "samplers",
                            "stream",
                            "n_probs",
                            "best_of",
                            "suffix",
                            "id_slot",
                            "echo"}) {
    const std::string body = std::string(R"({"prompt": "a", ")") + field + "\": null}";
    EXPECT_EQ(s.post("/completion", body).status, 200) << field;
    EXPECT_EQ(s.post("/v1/completions", body).status, 200) << field;
  }
}

TEST(Completion, APromptBeyondTheContextIsRefusedWithBothLengths) {
  Serving::Options o = alphabet();
  o.context_tokens = 32;
  Serving s(o);
  const std::string prompt(100, 'a');
  for (const char* stream : {"false", "true"}) {
    const Reply r =
        s.post("/completion", "{\"prompt\": \"" + prompt + "\", \"stream\": " + stream + "}");
    EXPECT_EQ(r.status, 400);
    EXPECT_FALSE(r.streamed);
    const Json error = *r.json().find("error");
    EXPECT_EQ(at(error, "type").as_string(), "exceed_context_size_error");
    EXPECT_EQ(at(error, "n_prompt_tokens").as_int(), 101);
    EXPECT_EQ(at(error, "n_ctx").as_int(), 32);
    EXPECT_THAT(at(error, "message").as_string(), HasSubstr("exceeds the available context size"));
  }
}

TEST(Completion, ProbabilitiesGoWithTheTextThatIsSent) {
  Serving s(alphabet());
  const Json j = s.post("/completion", R"({"prompt": "ab", "n_predict": 4, "n_probs": 3})").json();
  const Json& list = at(j, "completion_probabilities");
  ASSERT_EQ(list.size(), 4U);
  const Json& first = list.as_array()[0];
  EXPECT_EQ(at(first, "token").as_string(), " L");
  EXPECT_EQ(at(first, "bytes").size(), 2U);
  EXPECT_LE(at(first, "logprob").as_double(), 0);
  EXPECT_EQ(at(first, "top_logprobs").size(), 3U);
  const Json post = s.post("/completion", R"({"prompt": "ab", "n_predict": 1, "n_probs": 3,
                                "temperature": 0, "post_sampling_probs": true})")
                        .json();
  const Json& sampled = at(post, "completion_probabilities").as_array()[0];
  EXPECT_DOUBLE_EQ(at(sampled, "prob").as_double(), 1.0);
  EXPECT_DOUBLE_EQ(at(at(sampled, "top_probs").as_array()[0], "prob").as_double(), 1.0);
  std::string joined;
  const Reply stream =
      s.post("/completion", R"({"prompt": "ab", "n_probs": 1, "stop": ["O P"], "stream": true})");
  for (const Json& event : stream.events()) {
    if (const Json* probabilities = event.find("completion_probabilities")) {
      for (const Json& token : probabilities->as_array()) joined += at(token, "token").as_string();
    }
  }
  EXPECT_THAT(joined, HasSubstr(" L M N"));
  EXPECT_THAT(joined, ::testing::Not(HasSubstr("P")));
}

TEST(Completion, BiasInEverySpelling) {
  Serving s(alphabet());
  const int32_t first = *s.state.model.tokenizer->id_of(" L");
  const std::string id = std::to_string(first);
  for (const std::string& bias : {"[[" + id + ", false]]", "[[" + id + ", -100]]",
                                  "{\"" + id + "\": -100}", "{\"" + id + "\": false}"}) {
    const Json j = s.post("/completion", R"({"prompt": "ab", "n_predict": 1, "return_tokens": true,
                                             "logit_bias": )" +
                                             bias + "}")
                       .json();
    EXPECT_NE(at(j, "tokens").as_array()[0].as_int(), first) << bias;
  }
  const Json text = s.post("/completion", R"({"prompt": "ab", "n_predict": 1,
                                              "logit_bias": [["x", 100]]})")
                        .json();
  EXPECT_EQ(at(text, "content").as_string(), "x");
}

TEST(Completion, IgnoredEndsAreListedInTheSettings) {
  Serving s(alphabet());
  const Json on =
      s.post("/completion", R"({"prompt": "ab", "n_predict": 2, "ignore_eos": true})").json();
  const Json& bias = at(at(on, "generation_settings"), "logit_bias");
  ASSERT_EQ(bias.size(), 1U);
  EXPECT_EQ(at(bias.as_array()[0], "token").as_int(), WordTokenizer::kEos);
  EXPECT_TRUE(at(bias.as_array()[0], "bias").is_null());
  const Json off = s.post("/completion", R"({"prompt": "ab", "n_predict": 2})").json();
  EXPECT_EQ(at(at(off, "generation_settings"), "logit_bias").size(), 0U);
}

TEST(Completion, ResponseFieldsAndProgress) {
  Serving s(alphabet());
  const Json j = s.post("/completion", R"({"prompt": "ab", "n_predict": 1, "response_fields":
      ["content", "generation_settings/n_predict", "nothing/here"]})")
                     .json();
  EXPECT_EQ(j.dump(), R"({"content":" L","generation_settings/n_predict":1})");
  const Reply r = s.post("/completion", R"({"prompt": "abcdefgh", "n_predict": 2, "stream": true,
                                            "return_progress": true, "cache_prompt": false})");
  const auto events = r.events();
  const Json& first = at(events.front(), "prompt_progress");
  EXPECT_EQ(at(first, "processed").as_int(), at(first, "cache").as_int());
  int64_t processed = 0;
  for (const Json& event : events) {
    if (const Json* p = event.find("prompt_progress")) processed = at(*p, "processed").as_int();
  }
  EXPECT_EQ(processed, 9);
}

TEST(Completion, IndentationEndsTheText) {
  Serving::Options o;
  o.script = {"a:", "\n  ", "b", "\n", "c", " d"};
  Serving s(o);
  const Json j = s.post("/completion", R"({"prompt": "x", "n_indent": 2})").json();
  EXPECT_EQ(at(j, "content").as_string(), "a:\n  b\n");
  EXPECT_EQ(at(j, "stop_type").as_string(), "limit");
}

TEST(Completion, TheServersLimitIsACap) {
  Serving s(alphabet());
  s.defaults.max_tokens = 2;
  s.defaults.max_tokens_is_cap = true;
  for (const char* n : {"5", "-1", "null"}) {
    const Json j =
        s.post("/completion", std::string(R"({"prompt": "ab", "n_predict": )") + n + "}").json();
    EXPECT_EQ(at(j, "tokens_predicted").as_int(), 2) << n;
  }
}

TEST(OpenAiCompletion, ShapeEchoAndLogprobs) {
  Serving s(alphabet());
  const Json j = s.post("/v1/completions", R"({"model": "any", "prompt": "ab", "max_tokens": 2,
                                               "logprobs": 1})")
                     .json();
  EXPECT_THAT(at(j, "id").as_string(), HasSubstr("cmpl"));
  EXPECT_EQ(at(j, "object").as_string(), "text_completion");
  EXPECT_EQ(at(j, "model").as_string(), "scripted");
  EXPECT_EQ(at(j, "system_fingerprint").as_string().substr(0, 1), "b");
  const Json& choice = at(j, "choices").as_array()[0];
  EXPECT_EQ(at(choice, "text").as_string(), " L M");
  EXPECT_EQ(at(choice, "finish_reason").as_string(), "length");
  const Json& logprobs = at(choice, "logprobs");
  EXPECT_EQ(at(logprobs, "tokens").size(), 2U);
  EXPECT_EQ(at(logprobs, "token_logprobs").size(), 2U);
  EXPECT_EQ(at(logprobs, "top_logprobs").as_array()[0].size(), 1U);
  EXPECT_EQ(at(logprobs, "text_offset").as_array()[1].as_int(), 2);
  EXPECT_EQ(at(at(j, "usage"), "prompt_tokens").as_int(), 3);
  EXPECT_EQ(at(at(j, "usage"), "completion_tokens").as_int(), 2);
  const Json echo =
      s.post("/v1/completions", R"({"prompt": "ab", "max_tokens": 1, "echo": true})").json();
  EXPECT_EQ(at(at(echo, "choices").as_array()[0], "text").as_string(), "ab L");
  const Json scored = s.post("/v1/completions", R"({"prompt": "ab", "max_tokens": 1, "echo": true,
                                                    "logprobs": 2})")
                          .json();
  const Json& scores = at(at(scored, "choices").as_array()[0], "logprobs");
  ASSERT_EQ(at(scores, "tokens").size(), 4U);
  EXPECT_TRUE(at(scores, "token_logprobs").as_array()[0].is_null());
  EXPECT_LT(at(scores, "token_logprobs").as_array()[1].as_double(), -5);  // not the script's word
  EXPECT_EQ(at(scores, "top_logprobs").as_array()[3].size(), 2U);
  EXPECT_EQ(at(scores, "text_offset").dump(), "[0,0,1,2]");
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt": "  "})").status, 400);
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt": ""})").status, 200);
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt": "a", "best_of": 3})").status, 501);
  EXPECT_EQ(s.post("/v1/completions", R"({"prompt": "a", "suffix": "b"})").status, 501);
}

TEST(OpenAiCompletion, StreamsEndWithUsageAndDone) {
  Serving s(alphabet());
  const Reply r = s.post("/v1/completions", R"({"prompt": ["ab", "cd"], "n": 2, "max_tokens": 2,
                         "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_TRUE(r.ends_with_done());
  const auto events = r.events();
  EXPECT_EQ(at(events.back(), "choices").size(), 0U);
  EXPECT_EQ(at(at(events.back(), "usage"), "completion_tokens").as_int(), 8);
  EXPECT_EQ(at(at(events.back(), "usage"), "prompt_tokens").as_int(), 6);
  std::vector<std::string> texts(4);
  for (const Json& e : events) {
    for (const Json& c : at(e, "choices").as_array()) {
      texts.at(static_cast<size_t>(at(c, "index").as_int())) += at(c, "text").as_string();
    }
    EXPECT_EQ(at(e, "id"), at(events[0], "id"));
  }
  EXPECT_THAT(texts, ElementsAre(" L M", " L M", " L M", " L M"));
}

}  // namespace
}  // namespace mlxcel::serve::testing
