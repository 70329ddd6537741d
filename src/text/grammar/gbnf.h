// llama.cpp's GBNF.
#pragma once

#include <string_view>

#include "text/grammar/builder.h"
#include "text/tokenizer.h"

namespace mlxcel::text::grammar {

/// The expression of rule "root". Throws InvalidArgument with line and column. `tokenizer` (may be
/// null) finds the ids of tokens given by name.
GrammarBuilder::Expr compile_gbnf(GrammarBuilder& builder, std::string_view source,
                                  const Tokenizer* tokenizer);

}  // namespace mlxcel::text::grammar
