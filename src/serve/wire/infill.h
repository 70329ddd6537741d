// POST /infill: text between a prefix and a suffix, for models that have markers for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/wire/completion.h"

namespace mlxcel::serve::wire {

/// Ids of a vocabulary's fill-in-the-middle markers.
struct InfillMarkers {
  text::TokenId prefix = 0, suffix = 0, middle = 0;
  std::optional<text::TokenId> repository, file_separator;
  std::vector<std::string> spellings;  // of all of them
};

/// Throws Unsupported naming what the vocabulary lacks.
InfillMarkers find_infill_markers(const text::Tokenizer& tokenizer);

/// Reads input_prefix, input_suffix, input_extra, prompt and the native fields. Throws the first
/// error.
CompletionRequest read_infill(const Json& body, const ServerState& state);

}  // namespace mlxcel::serve::wire
