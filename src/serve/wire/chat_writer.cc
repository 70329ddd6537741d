// "chat.completion" and "chat.completion.chunk" objects.
#include "serve/wire/api_error.h"
#include "serve/wire/chat.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve::wire {
namespace {

class ChatWriter final : public AnswerWriter {
 public:
  ChatWriter(const ServerState& state, const ChatFormat& format, std::shared_ptr<Answer> answer,
             ChatRequest request)
      : state_(state),
        answer_(std::move(answer)),
        request_(std::move(request)),
        id_(request_.id),
        created_(unix_seconds()) {
    for (int32_t i = 0; i < request_.num_choices; ++i) {
      states_.push_back({make_output(request_, format, state.generation), {}, {}, {}});
    }
  }

  void begin(const std::vector<Choice>& choices) override {
    if (!request_.options.stream) return;
    for (const Choice& c : choices) {
      send(c, Json::object({{"role", "assistant"}, {"content", Json()}}), {}, Json(), false);
    }
  }

  void progress(const Choice& c) override {
    if (!request_.options.stream || !request_.options.return_progress) return;
    Json out = frame("chat.completion.chunk", choice_list(c, Json::object(), {}, Json()));
    out.set("prompt_progress", progress_json(c));
    answer_->data(out);
  }

  void delta(const Choice& c, const TextDelta& d) override {
    State& s = states_[c.index];
    s.unsent.insert(s.unsent.end(), d.probabilities.begin(), d.probabilities.end());
    add(c, s.output.push(d.text, d.ids.size()));
  }

  std::string take_forced(const Choice& c) override {
    return states_[c.index].output.take_forced();
  }
  bool end_reasoning() override {
    for (State& s : states_) s.output.end_reasoning();
    return true;
  }

  void choice_done(const Choice& c) override {
    State& s = states_[c.index];
    add(c, s.output.finish());
    if (!request_.options.stream) return;
    send(c, Json::object(), {}, reason(c), !request_.options.include_usage);
  }

  void done(const std::vector<Choice>& choices) override {
    const Json usage = usage_json(choices, choices.size());
    if (request_.options.stream) {
      if (request_.options.include_usage) {
        Json out = frame("chat.completion.chunk", Json::array());
        out.set("usage", usage);
        out.set("timings", timings_json(choices.front()));
        answer_->data(out);
      }
      answer_->data_text("[DONE]");
      return answer_->finish();
    }
    Json list = Json::array();
    for (const Choice& c : choices) list.push_back(whole_choice(c));
    Json out = frame("chat.completion", std::move(list));
    out.set("usage", usage);
    out.set("timings", timings_json(choices.front()));
    if (state_.generation.verbose) {
      out.set("__verbose", Json::object({{"prompt", request_.prompt.text}}));
    }
    answer_->reply(out);
  }

  void failed(const Error& error) override { answer_->fail(to_api_error(error), Envelope::OpenAi); }

 private:
  struct State {  // of one choice
    ChatOutput output;
    ChatDelta whole;
    std::vector<TokenProbability> unsent;  // of text the parser holds back
    std::vector<TokenProbability> sent;
  };

  void add(const Choice& c, const ChatDelta& d) {
    if (d.empty()) return;
    State& s = states_[c.index];
    s.whole.reasoning += d.reasoning;
    s.whole.content += d.content;
    const size_t num_before = s.whole.calls.size();
    for (const text::ToolCall& call : d.calls) s.whole.calls.push_back(with_id(call, "call_"));
    std::vector<TokenProbability> probabilities = std::move(s.unsent);
    s.unsent.clear();
    if (d.content.empty()) probabilities.clear();  // only the content has log-probabilities
    if (request_.options.stream) {
      Json delta = Json::object();
      if (!d.reasoning.empty()) set_reasoning(delta, d.reasoning);
      if (!d.content.empty()) delta.set("content", d.content);
      if (delta.size() > 0) {
        send(c, std::move(delta), probabilities, Json(), request_.options.timings_per_token);
      }
      for (size_t i = num_before; i < s.whole.calls.size(); ++i) send_call(c, i);
    } else {
      s.sent.insert(s.sent.end(), probabilities.begin(), probabilities.end());
    }
  }

  // The name first, with empty arguments; then the arguments.
  void send_call(const Choice& c, size_t index) {
    const text::ToolCall& call = states_[c.index].whole.calls[index];
    const auto send_part = [&](Json part) {
      part.set("index", static_cast<int64_t>(index));
      send(c, Json::object({{"tool_calls", Json::array({std::move(part)})}}), {}, Json(), false);
    };
    send_part(Json::object({{"id", call.id},
                            {"type", "function"},
                            {"function", Json::object({{"name", call.name}, {"arguments", ""}})}}));
    send_part(Json::object({{"function", Json::object({{"arguments", call.arguments}})}}));
  }

  std::string_view reason(const Choice& c) const {
    return states_[c.index].whole.calls.empty() ? finish_reason(c) : "tool_calls";
  }

  void set_reasoning(Json& object, const std::string& text) const {
    object.set("reasoning_content", text);
    if (state_.generation.reasoning_alias) object.set("reasoning", text);
  }

  Json logprobs(const std::vector<TokenProbability>& tokens) const {
    return Json::object(
        {{"content", probabilities_json(*state_.model.tokenizer, tokens, false, false)}});
  }

  Json whole_choice(const Choice& c) const {
    const State& s = states_[c.index];
    Json message = Json::object({{"role", "assistant"}, {"content", s.whole.content}});
    if (!s.whole.reasoning.empty()) set_reasoning(message, s.whole.reasoning);
    if (!s.whole.calls.empty()) {
      if (s.whole.content.empty()) message.set("content", Json());
      Json calls = Json::array();
      for (const text::ToolCall& call : s.whole.calls) calls.push_back(call_json(call));
      message.set("tool_calls", std::move(calls));
    }
    Json out = Json::object({{"index", static_cast<int64_t>(c.index)},
                             {"message", std::move(message)},
                             {"finish_reason", reason(c)}});
    if (request_.logprobs) out.set("logprobs", logprobs(s.sent));
    return out;
  }

  Json choice_list(const Choice& c, Json delta, const std::vector<TokenProbability>& tokens,
                   Json finish) const {
    Json out = Json::object({{"index", static_cast<int64_t>(c.index)},
                             {"delta", std::move(delta)},
                             {"finish_reason", std::move(finish)}});
    if (!tokens.empty()) out.set("logprobs", logprobs(tokens));
    return Json::array({std::move(out)});
  }

  Json frame(std::string_view object, Json choices) const {
    return Json::object({{"id", id_},
                         {"object", object},
                         {"created", created_},
                         {"model", state_.model.id},
                         {"system_fingerprint", system_fingerprint()},
                         {"choices", std::move(choices)}});
  }

  void send(const Choice& c, Json delta, const std::vector<TokenProbability>& tokens, Json finish,
            bool with_timings) {
    if (head_.empty()) head_ = chunk_head(frame("chat.completion.chunk", Json::array()));
    const Json choices = choice_list(c, std::move(delta), tokens, std::move(finish));
    answer_->data_text(chunk_text(head_, choices, with_timings ? &c : nullptr));
  }

  const ServerState& state_;
  std::shared_ptr<Answer> answer_;  // shared with the generation
  ChatRequest request_;
  std::string id_;
  int64_t created_;
  std::vector<State> states_;
  std::string head_;  // of every chunk
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chat_writer(const ServerState& state, const ChatFormat& format,
                                               std::shared_ptr<Answer> answer,
                                               ChatRequest request) {
  return std::make_unique<ChatWriter>(state, format, std::move(answer), std::move(request));
}

}  // namespace mlxcel::serve::wire
