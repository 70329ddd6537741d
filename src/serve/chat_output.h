// The text of a chat answer, taken apart: thinking, content and tool calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/served_model.h"
#include "text/reasoning.h"
#include "text/tool_calls.h"

namespace mlxcel::serve {

struct ChatDelta {
  std::string reasoning, content;
  std::vector<text::ToolCall> calls;
  std::vector<size_t> places;  // of each call: how many bytes of the content come before it
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  /// Content and calls as the model wrote them, one after the other.
  template <typename OnText, typename OnCall>
  void in_order(const OnText& on_text, const OnCall& on_call) const {
    size_t at = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (places[i] > at) on_text(content.substr(at, places[i] - at));
      at = places[i];
      on_call(calls[i]);
    }
    if (at < content.size()) on_text(content.substr(at));
  }
};

class ChatOutput {
 public:
  /// `format` Auto means Deepseek. `generic`: the checkpoint has no template, so nothing is parsed.
  ChatOutput(ReasoningFormat format, std::string_view template_source,
             std::string_view rendered_prompt, bool generic);

  /// Takes calls of `tools` out of the content from now on.
  void expect_calls(text::ToolFormat format, const Json& tools);

  /// `num_tokens`: how many tokens the text comes from.
  ChatDelta push(std::string_view text, size_t num_tokens);
  ChatDelta finish();
  /// True when the markers are special tokens: the engine must then make text of them.
  bool needs_special_text() const { return needs_special_text_; }

  /// Thinking ends after that many tokens; negative: no limit.
  void set_budget(int32_t num_tokens) { budget_ = num_tokens; }
  /// Ends thinking now, or where it begins.
  void end_reasoning() { budget_ = 0; }
  bool inside() const { return parser_ && parser_->inside(); }
  /// What ends an open block.
  std::string closing() const { return parser_ ? parser_->closing() : std::string(); }
  /// The text that must come next because the budget is spent; once, else empty.
  std::string take_forced();

 private:
  ChatDelta combine(std::string_view text, text::ReasoningDelta delta) const;
  ChatDelta take_calls(ChatDelta delta, bool final);

  ReasoningFormat format_;
  std::unique_ptr<text::ReasoningParser> parser_;  // null: there is no thinking
  std::unique_ptr<text::ToolCallParser> calls_;    // null: no tools
  bool needs_special_text_ = false;
  int32_t budget_ = -1;
  int64_t num_reasoning_tokens_ = 0;
  bool forced_ = false;
};

}  // namespace mlxcel::serve
