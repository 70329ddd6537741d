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

class ReasoningParser {
 public:
  virtual ~ReasoningParser() = default;
  virtual ReasoningDelta push(std::string_view text) = 0;
  virtual ReasoningDelta finish() = 0;
};

/// Chosen by a probe on the template's source and on whether the rendered prompt ends inside an
/// open block.
std::unique_ptr<ReasoningParser> make_reasoning_parser(std::string_view template_source,
                                                       std::string_view rendered_prompt);

}  // namespace mlxcel::text
