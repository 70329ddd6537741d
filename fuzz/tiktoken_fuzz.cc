// Rank files and tekken.json: load, then encode and decode a little text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

namespace {

void use(const mlxcel::Result<std::unique_ptr<mlxcel::text::Tokenizer>>& tokenizer) {
  if (!tokenizer.ok()) return;
  try {
    tokenizer.value()->decode(tokenizer.value()->encode(" Hello, 123 a\xFF\u00e9\u4e2d"), false);
  } catch (const mlxcel::Error&) {
    // A pattern that takes too long.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlxcel;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  use(text::parse_tiktoken(input,
                           {R"(\p{L}+|\p{N}|[^\p{L}\p{N}]+)", {{"<s>", 300}}, "", "", false}));
  use(text::parse_tekken(input));
  return 0;
}
