// Rewriting text before it is split (huggingface.co/docs/tokenizers, "Normalizers").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tokenizer_added.h"

namespace mlxcel::text {

struct NormalizedText {
  std::string text;       // well-formed UTF-8
  bool at_origin = true;  // the first character stems from the first one of the input
};

/// Immutable, thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
};

/// Reads a normalizer member of tokenizer.json; null gives null. Throws InvalidArgument.
std::unique_ptr<Normalizer> make_normalizer(const Json* json);

/// The Precompiled normalizer of tokenizer.json from its base64 text. Throws InvalidArgument.
std::unique_ptr<Normalizer> make_precompiled(std::string_view base64);

/// SentencePiece's compiled character map: a double-array trie from byte strings to replacements.
class CharsMap {
 public:
  /// The blob of a model file; empty maps nothing. Throws Corrupt when its sizes do not fit.
  explicit CharsMap(std::string_view blob);
  bool empty() const { return units_.empty(); }
  /// Replacement of the longest (or shortest) key that `text` begins with; `length` is the key's.
  /// False when there is none.
  bool find(std::string_view text, bool longest, std::string_view& replacement,
            size_t& length) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;  // NUL-terminated strings
};

/// SentencePiece's own use of the map (longest match first) and of white space.
struct SentencePieceNormalizer {
  CharsMap map{""};
  ByteTrie verbatim;  // texts that are left as they are
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_is_suffix = false;

  std::string apply(std::string_view text) const;
};

}  // namespace mlxcel::text
