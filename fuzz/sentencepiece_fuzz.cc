// SentencePiece model files: load, then encode and decode a little text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlxcel;
  const auto tokenizer =
      text::parse_sentencepiece(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!tokenizer.ok()) return 0;
  for (const std::string_view sample : {"Hello, world! 123", " \n\t a\xFF\u00e9\u4e2d <s> ##x"}) {
    try {
      tokenizer.value()->decode(tokenizer.value()->encode(sample), false);
    } catch (const Error&) {
      // An unknown character without an unknown piece.
    }
  }
  return 0;
}
