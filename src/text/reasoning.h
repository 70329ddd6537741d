// Splits thinking from the answer in generated text, incrementally; markers are never part of
// either.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace mlxcel::text {

struct ReasoningDelta {
  std::string reasoning, content;
};

/// Cutting the text elsewhere never changes what all deltas together say. White space next to a
/// marker belongs to the marker and is dropped.
class ReasoningParser {
 public:
  virtual ~ReasoningParser() = default;
  virtual ReasoningDelta push(std::string_view text) = 0;
  /// What was held back because it could have become a marker.
  virtual ReasoningDelta finish() = 0;
  /// True when the markers are special tokens, which must then be part of the text pushed here.
  virtual bool needs_special_text() const { return false; }
  /// True while a block of thinking is open.
  virtual bool inside() const = 0;
  /// What the model would write to end the block and begin its answer.
  virtual std::string closing() const = 0;
};

/// Chosen by a probe on the template's source and on whether the rendered prompt ends inside an
/// open block. Knows <think>, <thought>, <seed:think>, [THINK], Cohere's <|START_THINKING|>, Kimi's
/// triangles, Apriel's "Here are my reasoning steps:", Gemma 4's <|channel> and gpt-oss' harmony
/// channels. In harmony text, messages to a tool stay in the content with their markup, for the
/// parser of tool calls.
std::unique_ptr<ReasoningParser> make_reasoning_parser(std::string_view template_source,
                                                       std::string_view rendered_prompt);

/// The text behind which the answer begins when `rendered_prompt` ends inside an open block, or
/// when the format always has a block first (gpt-oss); empty when the answer begins at once.
std::string reasoning_end(std::string_view template_source, std::string_view rendered_prompt);

}  // namespace mlxcel::text
