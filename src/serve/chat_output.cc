#include "serve/chat_output.h"

#include <utility>

namespace mlxcel::serve {

ChatOutput::ChatOutput(ReasoningFormat format, std::string_view template_source,
                       std::string_view rendered_prompt, bool generic)
    : format_(format == ReasoningFormat::Auto ? ReasoningFormat::Deepseek : format) {
  if (generic) return;
  parser_ = text::make_reasoning_parser(template_source, rendered_prompt);
  needs_special_text_ = parser_->needs_special_text();
}

void ChatOutput::expect_calls(text::ToolFormat format, const Json& tools) {
  calls_ = text::make_tool_call_parser(format, tools);
}

ChatDelta ChatOutput::take_calls(ChatDelta delta, bool final) {
  if (!calls_) return delta;
  text::ToolDelta found = calls_->push(delta.content);
  delta.content = std::move(found.content);
  delta.calls = std::move(found.calls);
  delta.places = std::move(found.places);
  if (!final) return delta;
  found = calls_->finish();
  for (const size_t place : found.places) delta.places.push_back(delta.content.size() + place);
  delta.content += found.content;
  for (text::ToolCall& c : found.calls) delta.calls.push_back(std::move(c));
  return delta;
}

ChatDelta ChatOutput::combine(std::string_view text, text::ReasoningDelta delta) const {
  if (format_ == ReasoningFormat::None) return {{}, std::string(text), {}, {}};
  if (format_ == ReasoningFormat::DeepseekLegacy) {
    return {std::move(delta.reasoning), std::string(text), {}, {}};
  }
  return {std::move(delta.reasoning), std::move(delta.content), {}, {}};
}

ChatDelta ChatOutput::push(std::string_view text, size_t num_tokens) {
  if (!parser_) return take_calls({{}, std::string(text), {}, {}}, false);
  ChatDelta out = take_calls(combine(text, parser_->push(text)), false);
  if (parser_->inside()) num_reasoning_tokens_ += static_cast<int64_t>(num_tokens);
  return out;
}

ChatDelta ChatOutput::finish() {
  if (!parser_) return take_calls({}, true);
  return take_calls(combine({}, parser_->finish()), true);
}

std::string ChatOutput::take_forced() {
  if (forced_ || budget_ < 0 || !inside() || num_reasoning_tokens_ < budget_) return {};
  forced_ = true;
  return parser_->closing();
}

}  // namespace mlxcel::serve
