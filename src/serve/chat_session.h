// Messages to prompt, prompt to request, events to text: shared by the interactive chat and the
// HTTP server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "text/chat_template.h"
#include "text/reasoning.h"

namespace mlxcel::serve {

/// What rendering a conversation needs besides the messages. Filled by the application from the
/// checkpoint.
struct ChatFormat {
  std::string template_source;  // empty: a plain generic format
  std::string bos_token, eos_token, unk_token, pad_token;
  Json extra_context = Json::object();         // chat_template_kwargs
  std::optional<text::ChatTemplate> compiled;  // of template_source; unset: compiled for each use
};

/// Fills `compiled`; InvalidArgument with the line when the template cannot be read.
void compile_template(ChatFormat& format);

struct RenderedPrompt {
  std::string text;
  std::vector<text::TokenId> ids;
};

/// Renders `messages` (OpenAI form) with a generation prompt and tokenizes it. InvalidArgument
/// carries the template's own text when it refuses the messages. The text of a template is
/// tokenized as it stands: a BOS token is there if and only if the template writes one, as in
/// transformers' apply_chat_template. The generic format gets the tokenizer's own BOS.
Result<RenderedPrompt> render_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                   const Json& messages, const Json& tools,
                                   bool add_generation_prompt = true);

/// One conversation to render.
struct ChatInput {
  Json messages;                        // OpenAI form
  Json tools;                           // null or a list
  Json extra_context = Json::object();  // over the format's own
  bool add_generation_prompt = true;
  std::string prefill;  // the beginning of the answer, put behind the prompt
};
/// Arguments of tool calls go to the template as objects when they are JSON objects; a template
/// that cannot take them so gets the strings.
Result<RenderedPrompt> render_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                   const ChatInput& input);

/// Tokenizes a prompt that is given to the model as it is. The tokenizer's BOS is added unless the
/// text begins with it already.
std::vector<text::TokenId> tokenize_raw(const text::Tokenizer& tokenizer, std::string_view prompt);

/// Strings that end an answer in the generic format: the next speaker's label.
const std::vector<std::string>& generic_stop_strings();

}  // namespace mlxcel::serve
