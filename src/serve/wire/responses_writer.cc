// "response" objects and their events. One item is open at a time: thinking, then the message.
// Calls are items of their own, in the place where the model wrote them.
#include "serve/wire/api_error.h"
#include "serve/wire/native_json.h"
#include "serve/wire/responses.h"

namespace mlxcel::serve::wire {
namespace {

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(const ServerState& state, const ChatFormat& format,
                  std::shared_ptr<Answer> answer, ResponsesRequest request, StoreResponse store)
      : state_(state),
        answer_(std::move(answer)),
        request_(std::move(request)),
        store_(std::move(store)),
        output_(make_output(request_.chat, format, state.generation)),
        created_(unix_seconds()) {}

  void begin(const std::vector<Choice>&) override {
    send("response.created", {{"response", response("in_progress", nullptr)}});
    send("response.in_progress", {{"response", response("in_progress", nullptr)}});
  }

  void progress(const Choice& c) override {
    if (!request_.chat.options.return_progress) return;
    Json body = response("in_progress", nullptr);
    send("response.in_progress",
         {{"response", std::move(body)}, {"prompt_progress", progress_json(c)}});
  }

  void delta(const Choice& c, const TextDelta& d) override {
    const bool inside = output_.inside();
    const ChatDelta parts = output_.push(d.text, d.ids.size());
    if (parts.content.empty() && (inside || output_.inside())) {
      reasoning_tokens_ += static_cast<int64_t>(d.ids.size());
    }
    if (!inside || !parts.content.empty()) {
      unsent_.insert(unsent_.end(), d.probabilities.begin(), d.probabilities.end());
    }
    add(c, parts);
  }

  std::string take_forced(const Choice&) override { return output_.take_forced(); }

  void choice_done(const Choice& c) override {
    add(c, output_.finish());
    // An answer of thinking alone still has its (empty) message.
    if (open_ != Open::Message && calls_.size() == 0) {
      close_item();
      open_message();
    }
    close_item();
  }

  void done(const std::vector<Choice>& choices) override {
    const Choice& c = choices.front();
    const char* status = c.stop == StopType::None    ? "cancelled"
                         : c.stop == StopType::Limit ? "incomplete"
                                                     : "completed";
    Json body = response(status, &c);
    Json messages = std::move(request_.history);
    Json message = Json::object({{"role", "assistant"}, {"content", content_}});
    if (!reasoning_.empty()) message.set("reasoning_content", reasoning_);
    if (calls_.size() > 0) message.set("tool_calls", calls_);
    messages.push_back(std::move(message));
    if (store_) store_(body, std::move(messages));
    if (!request_.chat.options.stream) return answer_->reply(body);
    Json::Object fields = {{"response", std::move(body)}};
    fields.emplace_back("timings", timings_json(c));
    send(std::string("response.") + status, std::move(fields));
    answer_->finish();
  }

  void failed(const Error& error) override {
    const ApiError api = to_api_error(error);
    if (!answer_->streaming()) return answer_->fail(api, Envelope::OpenAi);
    Json body = response("failed", nullptr);
    body.set("error", Json::object({{"code", api.type}, {"message", api.message}}));
    if (store_) store_(body, request_.history);
    send("error", {{"code", api.type}, {"message", api.message}, {"param", Json()}});
    send("response.failed", {{"response", std::move(body)}});
    answer_->finish();
  }

 private:
  enum class Open : uint8_t { Nothing, Reasoning, Message };

  void send(std::string_view type, Json::Object fields) {
    if (!request_.chat.options.stream) return;
    Json payload = Json::object({{"type", type}, {"sequence_number", sequence_++}});
    for (auto& [key, value] : fields) payload.set(key, std::move(value));
    answer_->event(type, payload);
  }

  void add(const Choice& c, const ChatDelta& d) {
    if (!d.reasoning.empty()) {
      if (open_ == Open::Nothing) open_reasoning();
      reasoning_ += d.reasoning;
      if (open_ == Open::Reasoning) {
        item_text_ += d.reasoning;
        Json::Object fields = place();
        fields.emplace_back("content_index", 0);
        fields.emplace_back("delta", d.reasoning);
        send("response.reasoning_text.delta", std::move(fields));
      }
    }
    d.in_order([&](const std::string& content) { add_content(c, content); },
               [&](const text::ToolCall& call) {
                 unsent_.clear();  // only messages have log-probabilities
                 add_call(with_id(call, "call_"));
               });
    if (!d.empty()) unsent_.clear();
  }

  void add_content(const Choice& c, const std::string& content) {
    if (open_ != Open::Message) {
      close_item();
      open_message();
    }
    content_ += content;
    item_text_ += content;
    Json::Object fields = place();
    fields.emplace_back("content_index", 0);
    fields.emplace_back("delta", content);
    fields.emplace_back("logprobs", take_logprobs());
    if (request_.chat.options.timings_per_token) fields.emplace_back("timings", timings_json(c));
    send("response.output_text.delta", std::move(fields));
  }

  /// A call comes whole: its item opens and closes here.
  void add_call(const text::ToolCall& call) {
    close_item();
    item_id_ = random_id("fc_");
    send_item("response.output_item.added", call_item(call, "in_progress", ""));
    Json::Object delta = place();
    delta.emplace_back("delta", call.arguments);
    send("response.function_call_arguments.delta", std::move(delta));
    Json::Object whole = place();
    whole.emplace_back("name", call.name);
    whole.emplace_back("arguments", call.arguments);
    send("response.function_call_arguments.done", std::move(whole));
    Json item = call_item(call, "completed", call.arguments);
    send_item("response.output_item.done", item);
    items_.push_back(std::move(item));
    calls_.push_back(call_json(call));
  }

  Json take_logprobs() {
    Json list = probabilities_json(*state_.model.tokenizer, unsent_, false, false);
    unsent_.clear();
    for (const Json& item : list.as_array()) logprobs_.push_back(item);
    return list;
  }

  /// Which item an event is about.
  Json::Object place() const {
    return {{"item_id", item_id_}, {"output_index", static_cast<int64_t>(items_.size())}};
  }

  void send_item(std::string_view type, Json item) {
    send(type, {{"output_index", static_cast<int64_t>(items_.size())}, {"item", std::move(item)}});
  }

  void open_reasoning() {
    open_ = Open::Reasoning;
    item_id_ = random_id("rs_");
    item_text_.clear();
    send_item("response.output_item.added", reasoning_item("in_progress", false));
  }

  void open_message() {
    open_ = Open::Message;
    item_id_ = random_id("msg_");
    item_text_.clear();
    logprobs_ = Json::array();
    send_item("response.output_item.added", message_item("in_progress", false));
    Json::Object fields = place();
    fields.emplace_back("content_index", 0);
    fields.emplace_back("part", text_part(""));
    send("response.content_part.added", std::move(fields));
  }

  void close_item() {
    if (open_ == Open::Nothing) return;
    const bool message = open_ == Open::Message;
    Json::Object text = place();
    text.emplace_back("content_index", 0);
    text.emplace_back("text", item_text_);
    if (message) text.emplace_back("logprobs", logprobs_);
    send(message ? "response.output_text.done" : "response.reasoning_text.done", std::move(text));
    Json item;
    if (message) {
      Json::Object part = place();
      part.emplace_back("content_index", 0);
      part.emplace_back("part", text_part(item_text_));
      send("response.content_part.done", std::move(part));
      item = message_item("completed", true);
    } else {
      item = reasoning_item("completed", true);
    }
    send_item("response.output_item.done", item);
    items_.push_back(std::move(item));
    open_ = Open::Nothing;
  }

  Json text_part(std::string_view text) const {
    return Json::object({{"type", "output_text"},
                         {"text", text},
                         {"annotations", Json::array()},
                         {"logprobs", text.empty() ? Json::array() : logprobs_}});
  }

  Json message_item(std::string_view status, bool with_text) const {
    return Json::object(
        {{"id", item_id_},
         {"type", "message"},
         {"status", status},
         {"role", "assistant"},
         {"content", with_text ? Json::array({text_part(item_text_)}) : Json::array()}});
  }

  Json reasoning_item(std::string_view status, bool with_text) const {
    Json content = Json::array();
    if (with_text) {
      content.push_back(Json::object({{"type", "reasoning_text"}, {"text", item_text_}}));
    }
    return Json::object({{"id", item_id_},
                         {"type", "reasoning"},
                         {"status", status},
                         {"summary", Json::array()},
                         {"content", std::move(content)}});
  }

  Json call_item(const text::ToolCall& call, std::string_view status,
                 std::string_view arguments) const {
    return Json::object({{"id", item_id_},
                         {"type", "function_call"},
                         {"status", status},
                         {"call_id", call.id},
                         {"name", call.name},
                         {"arguments", arguments}});
  }

  /// `c` null: not finished, so neither output nor usage.
  Json response(std::string_view status, const Choice* c) const {
    Json out = Json::object({{"id", request_.id},
                             {"object", "response"},
                             {"created_at", created_},
                             {"status", status},
                             {"error", Json()},
                             {"incomplete_details", Json()},
                             {"model", state_.model.id},
                             {"output", items_},
                             {"usage", Json()}});
    for (const auto& [key, value] : request_.echoed.as_object()) out.set(key, value);
    if (!request_.conversation_id.empty()) {
      out.set("conversation", Json::object({{"id", request_.conversation_id}}));
    }
    if (c == nullptr) return out;
    out.set("completed_at", unix_seconds());
    out.set("output_text", content_);
    if (status == "incomplete") {
      out.set("incomplete_details", Json::object({{"reason", "max_output_tokens"}}));
    }
    const auto input = static_cast<int64_t>(c->prompt.size());
    out.set("usage",
            Json::object(
                {{"input_tokens", input},
                 {"input_tokens_details", Json::object({{"cached_tokens", c->num_cached}})},
                 {"output_tokens", c->num_generated},
                 {"output_tokens_details", Json::object({{"reasoning_tokens", reasoning_tokens_}})},
                 {"total_tokens", input + c->num_generated}}));
    return out;
  }

  const ServerState& state_;
  std::shared_ptr<Answer> answer_;  // shared with the generation
  ResponsesRequest request_;
  StoreResponse store_;  // may be empty
  ChatOutput output_;
  int64_t created_, sequence_ = 0, reasoning_tokens_ = 0;
  Open open_ = Open::Nothing;
  std::string item_id_, item_text_;  // of the open item
  std::string reasoning_, content_;
  Json items_ = Json::array();  // closed ones
  Json calls_ = Json::array();  // as a message has them
  std::vector<TokenProbability> unsent_;
  Json logprobs_ = Json::array();  // of the last message
};

}  // namespace

std::unique_ptr<AnswerWriter> make_responses_writer(const ServerState& state,
                                                    const ChatFormat& format,
                                                    std::shared_ptr<Answer> answer,
                                                    ResponsesRequest request, StoreResponse store) {
  return std::make_unique<ResponsesWriter>(state, format, std::move(answer), std::move(request),
                                           std::move(store));
}

}  // namespace mlxcel::serve::wire
