// Character predicates of the Rust libraries behind Hugging Face tokenizers, whose Unicode versions
// differ from each other.
#pragma once

#include <string>
#include <string_view>

#include "text/unicode.h"

namespace mlxcel::text::unicode {

/// char::is_numeric of Rust's standard library.
bool is_rust_numeric(char32_t c);
/// \w of Rust's regex crate.
bool is_rust_word(char32_t c);
/// Punctuation of the unicode_categories crate or of ASCII.
bool is_hf_punctuation(char32_t c);
/// Removed by BERT's clean-up: control, format, private use (unicode_categories), NUL and U+FFFD;
/// tab, line feed and carriage return are not.
bool is_bert_control(char32_t c);
/// Mn of the unicode_categories crate.
bool is_hf_nonspacing_mark(char32_t c);
/// is_combining_mark of the unicode-normalization crate.
bool is_hf_combining_mark(char32_t c);
/// CJK ideographs as BERT spaces them out.
bool is_bert_cjk(char32_t c);
/// Full lower-case mapping of a character, appended as UTF-8 (Rust's char::to_lowercase).
void append_lowercase(std::string& out, char32_t c);

constexpr int kAnyScript = 0;
/// The script of a character as SentencePiece groups them: kana count as Han, space as any.
int sentencepiece_script(char32_t c);

enum class Form : uint8_t { NFC, NFD, NFKC, NFKD };
/// Normalizes well-formed UTF-8 in place.
void normalize(std::string& text, Form form);

}  // namespace mlxcel::text::unicode
