// Reading one block of tool calls. Every scanner begins at its opening marker.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tool_calls.h"

namespace mlxcel::text::tools {

struct Scan {
  enum class State : uint8_t { More, Done, Bad } state = State::Bad;
  size_t end = 0;  // bytes taken, when Done
  std::vector<ToolCall> calls;
};
/// `final`: no more text will come.
using Scanner = Scan (*)(std::string_view text, bool final, const Json& tools);

struct Opener {
  std::string_view marker;
  Scanner scan;
  bool at_start = false;  // only where nothing but white space and calls came before
};
/// What opens calls in a format.
std::vector<Opener> openers_of(ToolFormat format);

}  // namespace mlxcel::text::tools
