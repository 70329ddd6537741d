// Parses and renders arbitrary templates under small limits.
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

namespace {

const mlxcel::Json& context() {
  static const mlxcel::Json kContext =
      mlxcel::Json::parse(
          R"({"messages":[{"role":"user","content":"h\u00e9llo <x> {{ y }}"},{"role":"assistant","content":null,
          "tool_calls":[{"function":{"name":"f","arguments":{"a":[1,2.5,true,null]}}}]}],"tools":[],"n":3,"s":"a b\nc",
          "add_generation_prompt":true})")
          .value();
  return kContext;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mlxcel::text::TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 16;
  limits.max_memory_bytes = 1 << 20;
  limits.max_depth = 32;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = mlxcel::text::ChatTemplate::parse(source, limits);
  if (parsed.ok()) (void)parsed.value().render(context(), 1735732805);
  return 0;
}
