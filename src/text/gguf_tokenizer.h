// Names of pre-tokenizers in GGUF files.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/tokenizer.h"
#include "text/unigram.h"

namespace mlxcel::text {

/// What tokenizer.ggml.pre stands for.
struct GgufPre {
  std::vector<std::string_view> patterns;  // splits one after the other, matches and gaps alike
  bool ignore_merges = false;
  bool add_bos = false;    // unless the file says otherwise
  bool byte_level = true;  // GPT-2's byte alphabet; else plain UTF-8 with <0xNN>
};

// Text clean-up as llama.cpp does it, which differs from the original libraries in places.

/// For WordPiece: decomposition, removal of controls and accents, lower case.
class LlamaCppBertText final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override;
};
/// Punctuation, ASCII symbols and ideographs, each of which is a word.
bool is_bert_word_of_its_own(char32_t c);
/// For Unigram: the character map, user-defined entries as they are, spaces merged and marked.
std::unique_ptr<Normalizer> make_llama_cpp_unigram_normalizer(const GgufVocab& vocab,
                                                              const std::vector<PieceType>& types);

/// Throws Unsupported for a name that is not known.
GgufPre gguf_pre(std::string_view name);

}  // namespace mlxcel::text
