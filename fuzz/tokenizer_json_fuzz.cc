// tokenizer.json: load, then encode and decode a little text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mlxcel;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = text::parse_tokenizer_json(json);
  if (!tokenizer.ok()) return 0;
  for (const std::string_view sample : {"Hello, world! 123", " \n\t a\xFF\u00e9\u4e2d <s> ##x",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    try {
      const auto ids = tokenizer.value()->encode(sample);
      tokenizer.value()->decode(ids, false);
      text::Detokenizer detokenizer(*tokenizer.value());
      for (const text::TokenId id : ids) detokenizer.push(id);
      detokenizer.flush();
      if (!ids.empty()) tokenizer.value()->bytes(ids[0]);
    } catch (const Error&) {
      // An unknown word without an unknown token, or a pattern that takes too long.
    }
  }
  return 0;
}
