// OpenAI chat completions. The other chat protocols are translated to this request form and have
// writers of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/chat_output.h"
#include "serve/chat_session.h"
#include "serve/generation.h"
#include "serve/wire/completion.h"

namespace mlxcel::serve::wire {

struct ChatRequest {
  std::string id;  // "chatcmpl-..."
  ChatInput input;
  engine::Request base;  // everything but the prompt
  StreamOptions options;
  int32_t num_choices = 1, id_slot = -1;
  int32_t reasoning_budget = -1;   // tokens; negative: no limit
  bool reasoning_control = false;  // POST .../control may end the thinking
  bool logprobs = false;
  text::ToolChoice tool_choice;
  text::ToolFormat tool_format = text::ToolFormat::Generic;  // settled by render()
  ReasoningFormat reasoning_format = ReasoningFormat::Auto;
  RenderedPrompt prompt;  // filled by render()
};

/// Checks and reads a request body (a copy, since `extra_body` is merged into it). Throws the first
/// error, which names the field. `allow_empty`: no messages are no error.
ChatRequest read_chat(Json body, const ServerState& state, bool allow_empty = false);
/// Renders the prompt and settles what depends on it: stop strings of the generic format, whether
/// special tokens become text.
void render(ChatRequest& request, const ChatFormat& format, const text::Tokenizer& tokenizer);
GenerationPlan make_plan(const ChatRequest& request);
/// Takes calls out of the text when the request has tools, unless nothing is parsed.
ChatOutput make_output(const ChatRequest& request, const ChatFormat& format,
                       const GenerationOptions& options);

/// Checks "messages": roles, contents, tool calls. Returns them in the form templates expect.
Json read_messages(const Json& messages, const ChatFormat& format);
/// `call` with an id: the one that the model wrote, else a random one behind `prefix`.
text::ToolCall with_id(text::ToolCall call, std::string_view prefix);
/// A call in "tool_calls" of a message.
Json call_json(const text::ToolCall& call);
/// Checks "tools" and "tool_choice", which goes to `choice`; null when the template gets none, the
/// tool of that name alone when one is named.
Json read_tools(Fields& fields, text::ToolChoice& choice);

std::unique_ptr<AnswerWriter> make_chat_writer(const ServerState& state, const ChatFormat& format,
                                               std::shared_ptr<Answer> answer, ChatRequest request);

}  // namespace mlxcel::serve::wire
