// The harmony format of gpt-oss: messages on channels.
#pragma once

#include <memory>
#include <string_view>

#include "text/reasoning.h"

namespace mlxcel::text {

bool is_harmony_template(std::string_view template_source);
std::unique_ptr<ReasoningParser> make_harmony_parser(std::string_view rendered_prompt);

/// Number of bytes at the end of `text` that are the beginning of `marker` but not all of it.
size_t partial_marker(std::string_view text, std::string_view marker);

}  // namespace mlxcel::text
