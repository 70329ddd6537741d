#include "serve/chat_output.h"

#include <utility>

namespace mlxcel::serve {

ChatOutput::ChatOutput(ReasoningFormat format, std::string_view template_source,
                       std::string_view rendered_prompt, bool generic)
    : format_(format == ReasoningFormat::Auto ? ReasoningFormat::Deepseek : format) {
  if (generic) return;
  parser_ = text::make_reasoning_parser(template_source, rendered_prompt);
  needs_special_text_ = parser_->needs_special_text();
  if (format_ == ReasoningFormat::None) parser_.reset();
}

ChatDelta ChatOutput::combine(std::string_view text, text::ReasoningDelta delta) const {
  if (format_ == ReasoningFormat::DeepseekLegacy)
    return {std::move(delta.reasoning), std::string(text)};
  return {std::move(delta.reasoning), std::move(delta.content)};
}

ChatDelta ChatOutput::push(std::string_view text) {
  if (!parser_) return {{}, std::string(text)};
  return combine(text, parser_->push(text));
}

ChatDelta ChatOutput::finish() {
  if (!parser_) return {};
  return combine({}, parser_->finish());
}

}  // namespace mlxcel::serve
