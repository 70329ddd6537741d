// "message" objects and their events. One block is open at a time: thinking first, then text.
// Calls are blocks of their own, in the place where the model wrote them.
#include "base/sha256.h"
#include "serve/wire/anthropic.h"
#include "serve/wire/api_error.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve::wire {
namespace {

// A client that sees "tool_use" runs the calls; one that sees "max_tokens" knows that more may
// have followed them.
std::string_view stop_reason(const Choice& c, bool calls) {
  if (c.stop == StopType::Limit) return "max_tokens";
  if (calls) return "tool_use";
  return c.stop == StopType::Word ? "stop_sequence" : "end_turn";
}

class AnthropicWriter final : public AnswerWriter {
 public:
  AnthropicWriter(const ServerState& state, const ChatFormat& format,
                  std::shared_ptr<Answer> answer, ChatRequest request)
      : state_(state),
        answer_(std::move(answer)),
        request_(std::move(request)),
        output_(make_output(request_, format, state.generation)),
        id_(random_id("msg_")) {}

  Envelope envelope() const override { return Envelope::Anthropic; }

  // The first event tells how much of the prompt was cached, which admission decides.
  void progress(const Choice& c) override { start(c); }

  void delta(const Choice& c, const TextDelta& d) override {
    start(c);
    add(output_.push(d.text, d.ids.size()));
  }

  std::string take_forced(const Choice&) override { return output_.take_forced(); }

  void choice_done(const Choice& c) override {
    start(c);
    add(output_.finish());
    if (blocks_.size() == 0 && open_ == Open::Nothing) open(Open::Text);
    close_block();
  }

  void done(const std::vector<Choice>& choices) override {
    const Choice& c = choices.front();
    const std::string_view reason = stop_reason(c, has_calls_);
    const Json stop = reason == "stop_sequence" ? Json(c.stopping_word) : Json();
    if (!request_.options.stream) {
      Json out = message(c);
      out.set("content", blocks_);
      out.set("stop_reason", reason);
      out.set("stop_sequence", stop);
      return answer_->reply(out);
    }
    send("message_delta",
         {{"delta", Json::object({{"stop_reason", reason}, {"stop_sequence", stop}})},
          {"usage", usage(c)}});
    send("message_stop", {});
    answer_->finish();
  }

  void failed(const Error& error) override {
    answer_->fail(to_api_error(error), Envelope::Anthropic);
  }

 private:
  enum class Open : uint8_t { Nothing, Thinking, Text };

  void send(std::string_view type, Json::Object fields) {
    if (!request_.options.stream) return;
    Json payload = Json::object({{"type", type}});
    for (auto& [key, value] : fields) payload.set(key, std::move(value));
    answer_->event(type, payload);
  }

  static Json usage(const Choice& c) {
    return Json::object({{"input_tokens", static_cast<int64_t>(c.prompt.size()) - c.num_cached},
                         {"cache_creation_input_tokens", 0},
                         {"cache_read_input_tokens", c.num_cached},
                         {"output_tokens", c.num_generated}});
  }

  Json message(const Choice& c) const {
    return Json::object({{"id", id_},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"model", state_.model.id},
                         {"content", Json::array()},
                         {"stop_reason", Json()},
                         {"stop_sequence", Json()},
                         {"usage", usage(c)}});
  }

  void start(const Choice& c) {
    if (std::exchange(started_, true)) return;
    send("message_start", {{"message", message(c)}});
  }

  void add(const ChatDelta& d) {
    if (!d.reasoning.empty() && open_ != Open::Text) {
      if (open_ == Open::Nothing) open(Open::Thinking);
      text_ += d.reasoning;
      send_delta({{"type", "thinking_delta"}, {"thinking", d.reasoning}});
    }
    d.in_order([&](const std::string& content) { add_text(content); },
               [&](const text::ToolCall& call) { add_call(with_id(call, "toolu_")); });
  }

  void add_text(const std::string& content) {
    if (open_ != Open::Text) {
      close_block();
      open(Open::Text);
    }
    text_ += content;
    send_delta({{"type", "text_delta"}, {"text", content}});
  }

  /// A call comes whole: its block opens and closes here.
  void add_call(const text::ToolCall& call) {
    close_block();
    has_calls_ = true;
    Json block = Json::object(
        {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}});
    send("content_block_start", {{"index", index()}, {"content_block", block}});
    send_delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
    send("content_block_stop", {{"index", index()}});
    block.set("input", Json::parse(call.arguments).value());
    blocks_.push_back(std::move(block));
  }

  void send_delta(Json::Object delta) {
    send("content_block_delta", {{"index", index()}, {"delta", Json::object(std::move(delta))}});
  }

  int64_t index() const { return static_cast<int64_t>(blocks_.size()); }

  void open(Open kind) {
    open_ = kind;
    text_.clear();
    const bool thinking = kind == Open::Thinking;
    Json block = thinking
                     ? Json::object({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}})
                     : Json::object({{"type", "text"}, {"text", ""}});
    send("content_block_start", {{"index", index()}, {"content_block", std::move(block)}});
  }

  void close_block() {
    if (open_ == Open::Nothing) return;
    Json block;
    if (open_ == Open::Thinking) {
      // Clients send the block back unread; the digest lets them see that it is whole.
      const std::string signature = hex(sha256(text_));
      send_delta({{"type", "signature_delta"}, {"signature", signature}});
      block = Json::object({{"type", "thinking"}, {"thinking", text_}, {"signature", signature}});
    } else {
      block = Json::object({{"type", "text"}, {"text", text_}});
    }
    send("content_block_stop", {{"index", index()}});
    blocks_.push_back(std::move(block));
    open_ = Open::Nothing;
  }

  const ServerState& state_;
  std::shared_ptr<Answer> answer_;  // shared with the generation
  ChatRequest request_;
  ChatOutput output_;
  std::string id_;
  bool started_ = false, has_calls_ = false;
  Open open_ = Open::Nothing;
  std::string text_;             // of the open block
  Json blocks_ = Json::array();  // closed ones
};

}  // namespace

std::unique_ptr<AnswerWriter> make_anthropic_writer(const ServerState& state,
                                                    const ChatFormat& format,
                                                    std::shared_ptr<Answer> answer,
                                                    ChatRequest request) {
  return std::make_unique<AnthropicWriter>(state, format, std::move(answer), std::move(request));
}

}  // namespace mlxcel::serve::wire
