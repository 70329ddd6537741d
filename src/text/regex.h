// What tokenizers look for in text: regular expressions in Oniguruma's Ruby syntax (the dialect of
// tokenizer.json files), literal strings, and hand-written scanners for the patterns that most
// models share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace mlxcel::text {

struct Match {
  size_t begin = 0, end = 0;
};

/// A compiled pattern. Immutable, thread-safe. Texts are well-formed UTF-8.
class Pattern {
 public:
  virtual ~Pattern() = default;
  /// The leftmost match that starts at or after `from`; false when there is none. Throws
  /// ResourceExhausted when matching takes more steps than any sane pattern needs.
  virtual bool find(std::string_view text, size_t from, Match& match) const = 0;
};

/// Walks the successive matches of a text; an empty match directly behind a match is skipped, as
/// Rust's regular-expression libraries do.
class MatchWalk {
 public:
  MatchWalk(const Pattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}
  bool next(Match& match);

 private:
  const Pattern& pattern_;
  std::string_view text_;
  size_t from_ = 0, last_end_ = SIZE_MAX;
};

/// While alive, matching on this thread fails with ResourceExhausted once the time that any sane
/// pattern needs for a text of that size (10 s and 2 us a byte) is over.
class RegexBudget {
 public:
  explicit RegexBudget(size_t text_bytes);
  ~RegexBudget();
  RegexBudget(const RegexBudget&) = delete;
  RegexBudget& operator=(const RegexBudget&) = delete;

 private:
  int64_t previous_;
};

/// Compiles a pattern; known ones become hand-written scanners unless `allow_scanner` is off.
/// Throws InvalidArgument naming the pattern and the place of the mistake.
std::unique_ptr<Pattern> compile_regex(std::string_view pattern, bool allow_scanner = true);
/// Matches `literal` itself; an empty one never matches.
std::unique_ptr<Pattern> compile_literal(std::string_view literal);
/// The scanner written for exactly this pattern, or null.
std::unique_ptr<Pattern> find_scanner(std::string_view pattern);
/// The patterns that find_scanner() knows.
std::vector<std::string_view> scanner_patterns();
/// Rewrites Oniguruma's Ruby syntax in PCRE2's, with \s, \w, \d and \h as Oniguruma defines them on
/// Unicode text. Throws InvalidArgument for constructs that have no counterpart.
std::string oniguruma_to_pcre2(std::string_view pattern);

}  // namespace mlxcel::text
