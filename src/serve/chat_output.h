// The text of a chat answer, taken apart: thinking, content, and (the place for a parser of them)
// tool calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/served_model.h"
#include "text/reasoning.h"

namespace mlxcel::serve {

struct ChatDelta {
  std::string reasoning, content;
  bool empty() const { return reasoning.empty() && content.empty(); }
};

class ChatOutput {
 public:
  /// `format` Auto means Deepseek. `generic`: the checkpoint has no template, so nothing is parsed.
  ChatOutput(ReasoningFormat format, std::string_view template_source,
             std::string_view rendered_prompt, bool generic);

  ChatDelta push(std::string_view text);
  ChatDelta finish();
  /// True when the markers are special tokens: the engine must then make text of them.
  bool needs_special_text() const { return needs_special_text_; }

 private:
  ChatDelta combine(std::string_view text, text::ReasoningDelta delta) const;

  ReasoningFormat format_;
  std::unique_ptr<text::ReasoningParser> parser_;  // null: all is content
  bool needs_special_text_ = false;
};

}  // namespace mlxcel::serve
