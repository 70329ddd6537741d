// Vocabularies of GGUF files for tests.
#pragma once

#include <memory>

#include "io/gguf.h"
#include "text/tokenizer.h"

namespace mlxcel::testing {

/// The tokenizer.ggml.* keys of a file, which must outlive the result.
text::GgufVocab read_gguf_vocab(const io::GgufFile& file);

/// A file's tokenizer.
std::unique_ptr<text::Tokenizer> load_gguf_tokenizer(const std::string& path);

}  // namespace mlxcel::testing
