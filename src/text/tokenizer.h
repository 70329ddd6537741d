// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace mlxcel::text {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special_tokens = true;    // what the post-processor adds: BOS, EOS, [CLS] ...
  bool parse_special_tokens = true;  // "<|eot|>" in the input becomes its id; off: plain text
};

/// A running decode(): feeds on ids, gives text. One text, one thread.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  /// Appends to `out` the text that is certain after this token: whole characters only.
  virtual void push(TokenId id, std::string& out) = 0;
  /// Appends what is left, broken bytes as U+FFFD. Once, at the end.
  virtual void finish(std::string& out) = 0;
};

/// Immutable and thread-safe after loading.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Ill-formed UTF-8 is treated as the reference does (byte-level: bytes as they are; others:
  /// U+FFFD).
  virtual std::vector<TokenId> encode(std::string_view utf8,
                                      const EncodeOptions& options = {}) const = 0;
  /// What the reference's decode() gives for the whole sequence.
  virtual std::string decode(std::span<const TokenId> ids,
                             bool skip_special_tokens = true) const = 0;
  /// The same, token by token; this tokenizer outlives the stream.
  virtual std::unique_ptr<TokenStream> stream(bool skip_special) const;
  /// Raw bytes this token adds in the middle of a text; may be half a character. Empty for ids out
  /// of range.
  virtual std::string_view bytes(TokenId id) const = 0;
  /// The vocabulary entry itself ("Ġthe", "▁the", "<|eot|>"); empty for unknown ids.
  virtual std::string_view token(TokenId id) const = 0;
  virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  virtual bool is_special(TokenId id) const = 0;
  virtual int32_t vocab_size() const = 0;  // highest id + 1, added tokens included
  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
  /// True when decode() drops the space that the first token of a text begins with (SentencePiece).
  virtual bool strips_leading_space() const = 0;
};

/// Vocabulary of a GGUF file, filled from its tokenizer.ggml.* keys.
struct GgufVocab {
  std::string model;                             // "llama", "gpt2", "bert", "t5"
  std::string pre;                               // tokenizer.ggml.pre
  std::vector<std::string_view> tokens, merges;  // must outlive the call only
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  int64_t bos = -1, eos = -1, unk = -1, sep = -1, pad = -1, cls = -1, mask = -1;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::string precompiled_charsmap;
};

/// Loads from a model directory: tokenizer.json, else tokenizer.model (SentencePiece), else
/// *.tiktoken / tekken.json; tokenizer_config.json completes it. NotFound names the files looked
/// for.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& model_dir);
/// tokenizer.json text alone.
Result<std::unique_ptr<Tokenizer>> parse_tokenizer_json(std::string_view json);
Result<std::unique_ptr<Tokenizer>> make_gguf_tokenizer(const GgufVocab& vocab);
/// A SentencePiece .model file's bytes (BPE or Unigram).
Result<std::unique_ptr<Tokenizer>> parse_sentencepiece(std::string_view protobuf);

/// What a .tiktoken file does not say.
struct TiktokenOptions {
  std::string pattern;  // of the pieces, in Rust's or Oniguruma's syntax
  std::vector<std::pair<std::string, TokenId>> special_tokens;
  std::string bos, eos;  // names among them, or empty
  bool add_bos = false;
};
/// The options of the published model whose .tiktoken file has that many entries (GPT-2, cl100k,
/// o200k, Llama 3, Qwen, Kimi K2); Unsupported for another number.
Result<TiktokenOptions> known_tiktoken_options(size_t entries);
/// A .tiktoken file's text: lines of base64, a space and a rank.
Result<std::unique_ptr<Tokenizer>> parse_tiktoken(std::string_view text,
                                                  const TiktokenOptions& options);
/// Mistral's tekken.json.
Result<std::unique_ptr<Tokenizer>> parse_tekken(std::string_view json);

/// Turns a token stream into text: concatenating everything returned equals decode() of the whole
/// sequence whenever that is valid UTF-8. Holds back bytes until they form a whole character.
class Detokenizer {
 public:
  /// `skip_special`: special tokens add no text.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true);
  std::string push(TokenId id);
  std::string flush();  // what is left, broken bytes as U+FFFD

 private:
  std::unique_ptr<TokenStream> stream_;
};

}  // namespace mlxcel::text
