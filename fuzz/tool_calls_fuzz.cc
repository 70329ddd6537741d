// Reads arbitrary text as each format's tool calls, whole and in pieces: both must say the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/tool_calls.h"

namespace {

std::string everything(mlxcel::text::ToolFormat format, std::string_view text, size_t piece) {
  const auto parser = mlxcel::text::make_tool_call_parser(format, mlxcel::Json());
  std::string content;
  std::string calls;
  const auto take = [&](const mlxcel::text::ToolDelta& d) {
    content += d.content;
    for (const auto& c : d.calls) calls += c.id + '\0' + c.name + '\0' + c.arguments + '\0';
  };
  for (size_t at = 0; at < text.size(); at += piece) take(parser->push(text.substr(at, piece)));
  take(parser->finish());
  return content + '\1' + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1,
                              size < 2000 ? size - 1 : size_t{2000});
  const auto format = static_cast<mlxcel::text::ToolFormat>(data[0] % 15);
  if (everything(format, text, text.size()) != everything(format, text, 1)) std::abort();
  return 0;
}
