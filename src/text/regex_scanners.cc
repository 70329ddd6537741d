// Hand-written scanners for the pre-tokenization patterns that most models share. Each is linear in
// the text and equal to its regular expression, which the tests check against the general engine.
#include <array>
#include <climits>

#include "text/regex.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

using unicode::CategorySet;

enum class Contractions : uint8_t {
  None,
  Exact,        // 's|'t|'re|'ve|'m|'ll|'d
  AnyCase,      // (?i:...), where the long s U+017F folds to s
  AnyCaseAscii  // spelled out as [sS] and so on
};

// The parts in which the patterns of the GPT family differ. In order of preference they match:
// contraction, word, digits, other characters, newlines, white space but the last, white space.
struct Rules {
  Contractions contractions = Contractions::None;
  bool contraction_follows_word = false;  // at the end of a word and not on its own
  bool cased_words = false;               // capitals before small letters, marks allowed
  bool marks_in_words = false;            // [\p{L}\p{M}]+
  bool any_prefix = true;                 // [^\r\n\p{L}\p{N}]? before a word, else " ?"
  int max_digits = 0;                     // 0: \p{N}+ with " ?" before it
  bool newlines_after_others = false;     // [\r\n]* behind other characters
  bool slashes_after_others = false;      // [\r\n/]*
  bool newline_rule = true;               // \s*[\r\n]+
  bool all_space_at_end = false;          // \s++$ before the newline rule
};

// Behind the end of a text stands a character that is in no set.
constexpr char32_t kEnd = 0x110000;

char32_t peek(std::string_view t, size_t at) { return at < t.size() ? unicode::next(t, at) : kEnd; }

template <CategorySet Set>
bool is(char32_t c) {
  return unicode::in<Set>(c);
}

// The end of the run of characters of a set that starts at `at`.
template <CategorySet Set>
size_t run_of(std::string_view t, size_t at) {
  static constexpr std::array<bool, 128> kAscii = unicode::ascii_members<Set>();
  while (at < t.size()) {
    const auto byte = static_cast<uint8_t>(t[at]);
    if (byte < 128) {
      if (!kAscii[byte]) break;
      ++at;
      continue;
    }
    size_t next = at;
    if (!unicode::in(unicode::next(t, next), Set)) break;
    at = next;
  }
  return at;
}

size_t newlines_end(std::string_view t, size_t at, bool slashes = false) {
  while (at < t.size() && (t[at] == '\r' || t[at] == '\n' || (slashes && t[at] == '/'))) ++at;
  return at;
}

struct SpaceRules {
  bool newlines = true;     // \s*[\r\n]+ before the others
  bool all_at_end = false;  // \s++$ before that
};

// The end of the white space at `at`: up to its last newline, else all at the end of the text, else
// all but the last character, else that one.
size_t space_end(std::string_view t, size_t at, SpaceRules rules) {
  size_t end = at, last = at, newline_end = 0;
  while (end < t.size()) {
    size_t next = end;
    const char32_t c = unicode::next(t, next);
    if (!unicode::is_space(c)) break;
    last = end;
    end = next;
    if (c == '\r' || c == '\n') newline_end = next;
  }
  if (rules.all_at_end && end == t.size()) return end;
  if (rules.newlines && newline_end != 0) return newline_end;
  return end < t.size() && last > at ? last : end;
}

constexpr CategorySet kUpperWord = unicode::kUpper | unicode::kMark;
constexpr CategorySet kLowerWord =
    unicode::set_of(unicode::Category::Ll, unicode::Category::Lm, unicode::Category::Lo) |
    unicode::kMark;

template <Rules R>
class RuleScanner final : public Pattern {
 public:
  bool find(std::string_view text, size_t from, Match& match) const override {
    if (from >= text.size()) return false;
    match = {from, end_of(text, from)};
    return true;
  }

 private:
  static constexpr CategorySet kWord =
      unicode::kLetter | (R.marks_in_words ? unicode::kMark : CategorySet{0});
  static constexpr CategorySet kNotOther =
      unicode::kLetter | unicode::kNumber | (R.marks_in_words ? unicode::kMark : CategorySet{0});

  static bool is_other(char32_t c) {
    return c < kEnd && !is<kNotOther>(c) && !unicode::is_space(c);
  }
  // Length of "'s" and its like at `at`, or 0.
  static size_t contraction(std::string_view t, size_t at) {
    if (t[at] != '\'') return 0;
    const auto letter = [&](size_t i) -> char {
      if (at + i >= t.size()) return 0;
      const char c = t[at + i];
      if (R.contractions == Contractions::Exact) return c;
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char a = letter(1), b = letter(2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    if (R.contractions == Contractions::AnyCase && t.substr(at + 1).starts_with("\u017F")) return 3;
    return 0;
  }

  // [Upper]*[Lower]+ else [Upper]+[Lower]*, with backtracking into the capitals; 0: no match.
  static size_t cased_word(std::string_view t, size_t begin, bool lower_needed) {
    const size_t upper_end = run_of<kUpperWord>(t, begin);
    const size_t lower_end = run_of<kLowerWord>(t, upper_end);
    if (!lower_needed) return upper_end > begin ? lower_end : 0;
    if (lower_end > upper_end) return lower_end;
    // Give back capitals until the next character may stand for a small letter as well.
    for (size_t at = upper_end; at > begin;) {
      const size_t start = unicode::previous(t, at);
      if (is<(kLowerWord)>(peek(t, start))) return at;
      at = start;
    }
    return 0;
  }

  static size_t word_end(std::string_view t, size_t at, char32_t c, size_t behind) {
    if constexpr (R.cased_words) {
      const bool prefix = c != '\r' && c != '\n' && !is<(unicode::kLetter | unicode::kNumber)>(c);
      for (const bool lower : {true, false}) {
        size_t end = prefix ? cased_word(t, behind, lower) : 0;
        if (end == 0) end = cased_word(t, at, lower);
        if (end == 0) continue;
        if (R.contraction_follows_word && end < t.size()) end += contraction(t, end);
        return end;
      }
      return 0;
    } else {
      if (is<(kWord)>(c)) return run_of<kWord>(t, behind);
      const bool prefix =
          R.any_prefix ? c != '\r' && c != '\n' && !is<(unicode::kNumber)>(c) : c == ' ';
      if (!prefix) return 0;
      const size_t end = run_of<kWord>(t, behind);
      return end > behind ? end : 0;
    }
  }

  static size_t digits_end(std::string_view t, size_t at, char32_t c, size_t behind) {
    if constexpr (R.max_digits == 0) {
      const size_t begin = c == ' ' ? behind : at;
      const size_t end = run_of<unicode::kNumber>(t, begin);
      return end > begin ? end : 0;
    } else {
      if (!is<(unicode::kNumber)>(c)) return 0;
      for (int n = 1; n < R.max_digits && is<(unicode::kNumber)>(peek(t, behind)); ++n) {
        unicode::next(t, behind);
      }
      return behind;
    }
  }

  static size_t others_end(std::string_view t, size_t at, char32_t c, size_t behind) {
    if (c == ' ' ? !is_other(peek(t, behind)) : !is_other(c)) return 0;
    at = behind;
    while (at < t.size()) {
      size_t next = at;
      if (!is_other(unicode::next(t, next))) break;
      at = next;
    }
    return R.newlines_after_others ? newlines_end(t, at, R.slashes_after_others) : at;
  }

  static size_t end_of(std::string_view t, size_t at) {
    if constexpr (R.contractions != Contractions::None && !R.contraction_follows_word) {
      if (const size_t n = contraction(t, at)) return at + n;
    }
    size_t behind = at;
    const char32_t c = unicode::next(t, behind);
    if (const size_t end = word_end(t, at, c, behind)) return end;
    if (const size_t end = digits_end(t, at, c, behind)) return end;
    if (const size_t end = others_end(t, at, c, behind)) return end;
    return space_end(t, at, {R.newline_rule, R.all_space_at_end});
  }
};

// Up to Max characters of a set, anywhere in the text: \p{N}{1,3} and its like.
template <CategorySet Set, int Max>
class RunFinder final : public Pattern {
 public:
  bool find(std::string_view text, size_t from, Match& match) const override {
    static constexpr std::array<bool, 128> kAscii = unicode::ascii_members<Set>();
    for (size_t at = from; at < text.size();) {
      const auto byte = static_cast<uint8_t>(text[at]);
      size_t end = at;
      if (byte < 128 ? kAscii[byte] : is<Set>(peek(text, at))) {
        for (int n = 0; n < Max && is<Set>(peek(text, end)); ++n) unicode::next(text, end);
        match = {at, end};
        return true;
      }
      unicode::next(text, at);
    }
    return false;
  }
};

// [一-龥぀-ゟ゠-ヿ]+, which all take three bytes.
class CjkFinder final : public Pattern {
 public:
  bool find(std::string_view text, size_t from, Match& match) const override {
    for (size_t at = from; at < text.size();) {
      if (static_cast<uint8_t>(text[at]) < 0xE3) {
        ++at;  // inside or at the start of some other character
        continue;
      }
      size_t end = at;
      const char32_t first = unicode::next(text, end);
      if (!is_member(first)) {
        at = end;
        continue;
      }
      while (is_member(peek(text, end))) unicode::next(text, end);
      match = {at, end};
      return true;
    }
    return false;
  }

 private:
  static bool is_member(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
  }
};

// The last of DeepSeek V3's patterns. In order of preference: an ASCII punctuation mark with ASCII
// letters, letters and marks with one character before them, punctuation and symbols, white space.
// It matches neither digits nor control characters on their own.
class DeepSeekScanner final : public Pattern {
 public:
  bool find(std::string_view text, size_t from, Match& match) const override {
    for (size_t at = from; at < text.size();) {
      size_t behind = at;
      const char32_t c = unicode::next(text, behind);
      if (const size_t end = end_of(text, at, c, behind)) {
        match = {at, end};
        return true;
      }
      at = behind;
    }
    return false;
  }

 private:
  static constexpr CategorySet kWord = unicode::kLetter | unicode::kMark;
  static constexpr CategorySet kSign = unicode::kPunctuation | unicode::kSymbol;

  static bool is_ascii_letter(char32_t c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

  static size_t end_of(std::string_view t, size_t at, char32_t c, size_t behind) {
    if (is<kWord>(c)) return run_of<kWord>(t, behind);
    if (is<kSign>(c)) {
      size_t end = behind;
      if (c < 128 && is_ascii_letter(peek(t, end))) {
        while (end < t.size() && is_ascii_letter(static_cast<uint8_t>(t[end]))) ++end;
        return end;
      }
      return newlines_end(t, run_of<kSign>(t, behind));
    }
    if (c != '\r' && c != '\n') {
      const size_t end = run_of<kWord>(t, behind);
      if (end > behind) return end;
    }
    if (c == ' ') {
      const size_t end = run_of<kSign>(t, behind);
      if (end > behind) return newlines_end(t, end);
    }
    return unicode::is_space(c) ? space_end(t, at, {}) : 0;
  }
};

constexpr Rules kGpt2{
    .contractions = Contractions::Exact, .any_prefix = false, .newline_rule = false};
constexpr Rules kLlama3{
    .contractions = Contractions::AnyCase, .max_digits = 3, .newlines_after_others = true};
constexpr Rules kCl100k{.contractions = Contractions::AnyCase,
                        .max_digits = 3,
                        .newlines_after_others = true,
                        .all_space_at_end = true};
constexpr Rules kLlama3Ascii{
    .contractions = Contractions::AnyCaseAscii, .max_digits = 3, .newlines_after_others = true};
constexpr Rules kQwen2{
    .contractions = Contractions::AnyCase, .max_digits = 1, .newlines_after_others = true};
constexpr Rules kQwen2Ascii{
    .contractions = Contractions::AnyCaseAscii, .max_digits = 1, .newlines_after_others = true};
constexpr Rules kQwen35{.contractions = Contractions::AnyCase,
                        .marks_in_words = true,
                        .max_digits = 1,
                        .newlines_after_others = true};
constexpr Rules kQwen35Ascii{.contractions = Contractions::AnyCaseAscii,
                             .marks_in_words = true,
                             .max_digits = 1,
                             .newlines_after_others = true};
constexpr Rules kO200k{.contractions = Contractions::AnyCase,
                       .contraction_follows_word = true,
                       .cased_words = true,
                       .max_digits = 3,
                       .newlines_after_others = true,
                       .slashes_after_others = true};
constexpr Rules kTekken{.cased_words = true,
                        .max_digits = 1,
                        .newlines_after_others = true,
                        .slashes_after_others = true};

struct Known {
  std::string_view pattern;
  std::unique_ptr<Pattern> (*make)();
};

template <Rules R>
std::unique_ptr<Pattern> make() {
  return std::make_unique<RuleScanner<R>>();
}
template <class P>
std::unique_ptr<Pattern> make_one() {
  return std::make_unique<P>();
}

#define MLXCEL_ANY_CASE R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define MLXCEL_ASCII_CASE R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))"
#define MLXCEL_TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define MLXCEL_SLASH_TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define MLXCEL_MARK_TAIL R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define MLXCEL_WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define MLXCEL_MARK_WORD R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)"
#define MLXCEL_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define MLXCEL_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"

#define MLXCEL_DEEPSEEK(CR, LF)                                                 \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)" CR LF                 \
  R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)" CR LF R"(]*|\s*[)" CR LF \
  R"(]+|\s+(?!\S)|\s+)"

// The spellings that published files use.
constexpr std::array kKnown{
    Known{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
          &make<kGpt2>},
    Known{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
          &make<kGpt2>},
    Known{R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)",
          &make<kGpt2>},
    Known{MLXCEL_ANY_CASE "|" MLXCEL_WORD R"(|\p{N}{1,3})" MLXCEL_TAIL, &make<kLlama3>},
    Known{R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++)"
          R"([\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
          &make<kCl100k>},
    Known{R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++)"
          R"([\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
          &make<kLlama3>},
    Known{R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++)"
          R"([\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
          &make<kQwen2>},
    Known{MLXCEL_ASCII_CASE "|" MLXCEL_WORD R"(|\p{N}{1,3})" MLXCEL_TAIL, &make<kLlama3Ascii>},
    Known{MLXCEL_ANY_CASE "|" MLXCEL_WORD R"(|\p{N})" MLXCEL_TAIL, &make<kQwen2>},
    Known{MLXCEL_ASCII_CASE "|" MLXCEL_WORD R"(|\p{N})" MLXCEL_TAIL, &make<kQwen2Ascii>},
    Known{MLXCEL_ANY_CASE "|" MLXCEL_MARK_WORD R"(|\p{N})" MLXCEL_MARK_TAIL, &make<kQwen35>},
    Known{MLXCEL_ASCII_CASE "|" MLXCEL_MARK_WORD R"(|\p{N})" MLXCEL_MARK_TAIL, &make<kQwen35Ascii>},
    Known{R"([^\r\n\p{L}\p{N}]?)" MLXCEL_UPPER "*" MLXCEL_LOWER "+" MLXCEL_ANY_CASE
          R"(?|[^\r\n\p{L}\p{N}]?)" MLXCEL_UPPER "+" MLXCEL_LOWER "*" MLXCEL_ANY_CASE
          R"(?|\p{N}{1,3})" MLXCEL_SLASH_TAIL,
          &make<kO200k>},
    Known{R"([^\r\n\p{L}\p{N}]?)" MLXCEL_UPPER "*" MLXCEL_LOWER "+"
          R"(|[^\r\n\p{L}\p{N}]?)" MLXCEL_UPPER "+" MLXCEL_LOWER "*"
          R"(|\p{N})" MLXCEL_SLASH_TAIL,
          &make<kTekken>},
    Known{MLXCEL_DEEPSEEK("\r", "\n"), &make_one<DeepSeekScanner>},
    Known{MLXCEL_DEEPSEEK(R"(\r)", R"(\n)"), &make_one<DeepSeekScanner>},
    Known{R"([一-龥぀-ゟ゠-ヿ]+)", &make_one<CjkFinder>},
    Known{R"(\p{N}{1,3})", &make_one<RunFinder<unicode::kNumber, 3>>},
    Known{R"(\p{N}+)", &make_one<RunFinder<unicode::kNumber, INT_MAX>>},
    Known{R"(\p{N})", &make_one<RunFinder<unicode::kNumber, 1>>},
};

}  // namespace

std::unique_ptr<Pattern> find_scanner(std::string_view pattern) {
  for (const Known& known : kKnown) {
    if (known.pattern == pattern) return known.make();
  }
  return nullptr;
}

std::vector<std::string_view> scanner_patterns() {
  std::vector<std::string_view> patterns;
  for (const Known& known : kKnown) patterns.push_back(known.pattern);
  return patterns;
}

}  // namespace mlxcel::text
