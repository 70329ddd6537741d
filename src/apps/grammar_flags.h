// --grammar, --grammar-file, --json-schema and --json-schema-file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/grammar/grammar.h"

namespace mlxcel::apps {

/// At most one of them is given.
struct GrammarFlags {
  std::optional<std::string> grammar, grammar_file, json_schema, json_schema_file;
};

/// The grammar that the flags ask for; null when none is given. Throws InvalidArgument naming the
/// flag, and NotFound for a file that cannot be read.
std::shared_ptr<const text::Grammar> compile_grammar(const GrammarFlags& flags,
                                                     const text::Tokenizer* tokenizer);

}  // namespace mlxcel::apps
