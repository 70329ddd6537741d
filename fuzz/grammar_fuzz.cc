// Compiles arbitrary grammars, schemas and patterns under small limits, and reads the rest of the
// input with them. The first byte chooses the language, a zero byte ends the source.
#include <cstdint>
#include <string_view>

#include "text/grammar/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using mlxcel::text::Grammar;
  if (size < 2) return 0;
  mlxcel::text::GrammarLimits limits;
  limits.max_dfa_states = 5'000;
  limits.max_total_states = 20'000;
  limits.max_rules = 2'000;
  limits.max_shapes = 200;
  limits.max_repeat = 10'000;
  limits.max_compile_s = 0.5;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view source = all.substr(0, all.find('\0'));
  const std::string_view text =
      source.size() < all.size() ? all.substr(source.size() + 1) : std::string_view();
  const auto use = [&](const mlxcel::Result<std::shared_ptr<const Grammar>>& grammar) {
    if (!grammar.ok()) return;
    try {
      (void)grammar.value()->matches(text.substr(0, 300));
    } catch (const mlxcel::Error&) {  // too ambiguous
    }
  };
  switch (data[0] % 3) {
    case 0:
      use(Grammar::from_gbnf(source, nullptr, limits));
      break;
    case 1: {
      const auto json = mlxcel::Json::parse(source);
      if (json.ok()) use(Grammar::from_json_schema(json.value(), limits));
      break;
    }
    default:
      use(Grammar::from_regex(source, limits));
  }
  return 0;
}
