// JSON Schema to grammar.
#pragma once

#include <string_view>

#include "base/json.h"
#include "text/grammar/builder.h"

namespace mlxcel::text::grammar {

/// JSON texts valid under `schema`, spelled canonically: keys in the order of the schema, further
/// keys behind them; strings of constrained places escaped only where they must be; numbers of
/// constrained places without exponent. White space between tokens: none, one blank, or a line
/// break and its indentation. Throws InvalidArgument naming the keyword and its place.
GrammarBuilder::Expr compile_schema(GrammarBuilder& builder, const Json& schema,
                                    std::string_view where);

}  // namespace mlxcel::text::grammar
