// Generated character data (tools/reference/tokenizers_unicode.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcel::text::unicode {

struct Table {
  const uint32_t* data;
  size_t size;
};

/// Oniguruma's general categories: (first code point << 5) | Category, valid up to the next entry.
extern const Table kCategoryRuns;
/// Pairs of first and last code points where a property differs from what the categories give:
/// \w and [[:alpha:]] of Oniguruma, \w of Rust's regex crate, is_numeric of Rust, punctuation,
/// BERT's removed characters, nonspacing and combining marks of the crates that tokenizers use.
extern const Table kOnigurumaWord, kOnigurumaAlpha, kRustWord, kRustNumeric, kHfPunctuation,
    kBertRemoved, kHfNonspacing, kHfCombining;
/// Pairs: characters that the reference's normalization, being older, leaves alone.
extern const Table kNormalizationInert;
/// Triples of first and last code point and Category: where the category is newer than Unicode 14.
extern const Table kCategoryNews;
/// Code point and lower-case code point where utf8proc 2.6 (Unicode 13) has none.
extern const Table kLowercase;
/// (first code point << 8) | script class, 0 for characters of any script.
extern const Table kScriptRuns;

}  // namespace mlxcel::text::unicode
