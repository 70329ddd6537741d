// Splitting normalized text into the pieces that a model encodes on its own
// (huggingface.co/docs/tokenizers, "Pre-tokenizers").
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/regex.h"

namespace mlxcel::text {

struct Piece {
  std::string_view text;
  bool at_origin = false;  // its first character stems from the very first one of the input
};

/// Receives pieces in order; the text is valid during the call only. Empty pieces are dropped.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(const Piece& piece) = 0;
};

/// One stage. Immutable, thread-safe. Pieces are non-empty, well-formed UTF-8.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(const Piece& piece, PieceSink& out) const = 0;
};

/// What becomes of the matches of a splitting pattern.
enum class SplitBehavior : uint8_t {
  Removed,
  Isolated,
  MergedWithPrevious,
  MergedWithNext,
  Contiguous
};

/// A chain of stages.
struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> stages;
  bool maps_bytes = false;  // the last stage writes pieces in the byte alphabet

  /// Runs all stages from `first` on.
  void run(const Piece& piece, PieceSink& out, size_t first = 0) const;
};

/// Reads the pre_tokenizer member of tokenizer.json (null: no stage). With `raw_bytes` a final
/// ByteLevel stage leaves bytes as they are. Throws InvalidArgument.
PreTokenizers make_pre_tokenizers(const Json* json, bool raw_bytes);

std::unique_ptr<PreTokenizer> make_split(std::unique_ptr<Pattern> pattern, SplitBehavior behavior,
                                         bool invert);
/// Splits at characters of one kind.
std::unique_ptr<PreTokenizer> make_char_split(bool (*matches)(char32_t), SplitBehavior behavior);
/// GPT-2's ByteLevel stage; `map`: write the byte alphabet.
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map);
/// A {"String": ...} or {"Regex": ...} object, or a plain string. Throws InvalidArgument.
std::unique_ptr<Pattern> make_pattern(const Json& json);

}  // namespace mlxcel::text
