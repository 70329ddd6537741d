#include "apps/grammar_flags.h"

#include <fmt/core.h>

#include "base/file.h"
#include "text/grammar/grammar_cache.h"

namespace mlxcel::apps {

std::shared_ptr<const text::Grammar> compile_grammar(const GrammarFlags& flags,
                                                     const text::Tokenizer* tokenizer) {
  struct Given {
    const char* name;
    const std::optional<std::string>& value;
    bool file, schema;
  };
  const Given all[] = {{"--grammar", flags.grammar, false, false},
                       {"--grammar-file", flags.grammar_file, true, false},
                       {"--json-schema", flags.json_schema, false, true},
                       {"--json-schema-file", flags.json_schema_file, true, true}};
  const Given* given = nullptr;
  for (const Given& g : all) {
    if (!g.value) continue;
    if (given != nullptr) {
      throw Error(Code::InvalidArgument,
                  fmt::format("{} and {} exclude each other", given->name, g.name));
    }
    given = &g;
  }
  if (given == nullptr) return nullptr;
  return with_context(given->name, [&]() -> std::shared_ptr<const text::Grammar> {
    const text::GrammarLimits limits;
    const std::string source =
        given->file ? read_file(*given->value, limits.max_source_bytes) : *given->value;
    if (!given->schema) return text::Grammar::from_gbnf(source, tokenizer).value();
    text::GrammarCache once(nullptr);
    return once.json_schema(Json::parse(source).value()).value();
  });
}

}  // namespace mlxcel::apps
