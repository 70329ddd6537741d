// The "prompt" of a completion request: one text, tokens, a mixture, or a list of those.
#pragma once

#include <string>
#include <vector>

#include "serve/wire/fields.h"
#include "text/tokenizer.h"

namespace mlxcel::serve::wire {

struct Prompt {
  std::vector<text::TokenId> ids;
  std::string text;  // what the ids say, special tokens included
  std::string echo;  // as the client wrote it; of ids, their text without special tokens
};

/// A string, [ids], [ids and strings], {"prompt_string"}, or a list of those. Strings get the
/// tokenizer's BOS when nothing stands before them. Errors are kept in `fields`.
std::vector<Prompt> read_prompts(Fields& fields, std::string_view key,
                                 const text::Tokenizer& tokenizer);

}  // namespace mlxcel::serve::wire
