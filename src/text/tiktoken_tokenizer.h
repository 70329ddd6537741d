// Byte-level vocabularies ordered by rank: .tiktoken files and Mistral's tekken.json.
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer_pipeline.h"

namespace mlxcel::text {

/// True when `text` begins like a .tiktoken file: base64, a space and a number.
bool looks_like_tiktoken(std::string_view text);

/// Options of a .tiktoken file, which holds ranks only, found by its number of entries; those of a
/// published model. Throws Unsupported when no model has that many.
TiktokenOptions guess_tiktoken_options(size_t entries);
size_t count_tiktoken_entries(std::string_view text);

// Throw InvalidArgument or ResourceExhausted.
std::unique_ptr<PipelineTokenizer> read_tiktoken(std::string_view text,
                                                 const TiktokenOptions& options);
std::unique_ptr<PipelineTokenizer> read_tekken(std::string_view json);

/// Decodes standard base64 up to its padding. Throws InvalidArgument.
std::string decode_base64(std::string_view text);

}  // namespace mlxcel::text
