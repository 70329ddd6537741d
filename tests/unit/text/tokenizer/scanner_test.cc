// The hand-written scanners must split every text as the general engine does with their pattern.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

// Short texts in which the characters that the patterns tell apart stand side by side.
class TextMaker {
 public:
  std::string text() {
    std::string out;
    const size_t stretches = 1 + random_() % 6;
    for (size_t i = 0; i < stretches; ++i) stretch(out);
    return out;
  }

 private:
  template <size_t N>
  char32_t pick(const char32_t (&choices)[N]) {
    return choices[random_() % (N - 1)];  // without the terminator
  }

  char32_t any_assigned() {
    for (;;) {
      const unsigned limit = random_() % 4 == 0 ? 0x110000 : 0x10000;
      const auto c = static_cast<char32_t>(random_() % limit);
      const auto category = unicode::category(c);
      // Which characters are unassigned depends on the Unicode version of the general engine.
      if (category != unicode::Category::Cn && category != unicode::Category::Cs) return c;
    }
  }

  char32_t character(unsigned kind) {
    switch (kind) {
      case 0:
        return pick(U"abcsStTdDmMlLvVeErR");
      case 1:
        return pick(U"ABCXYZ");
      case 2:
        return pick(U"   \t\n\r\u00A0\u3000\u2028\u0085");
      case 3:
        return pick(U"0123456789\u0661\u00B2\u2167\U0001D7D8");
      case 4:
        return pick(U"''\u2019.,;:!?/\\-_()[]{}\"#$%&*+<=>@^`|~");
      case 5:
        return pick(U"\u4E00\u9FA5\u9FA6\u3042\u309F\u30A0\u30FF\u3100\uAC00\u1100\uFF11\u4DFF");
      case 6:
        return pick(U"\u0301\u0903\u20DD\u094D\u200D\uFE0F\U000E0100");
      case 7:
        return pick(U"\U0001F600\U0001F469\u2764\u20AC\u00A9\U0001F1F0");
      case 8:
        return pick(U"\u017F\u01C5\u02B0\u00AA\u00E9\u00C9\u03A9\u0431\u05D0\u0627\u212A");
      case 9:
        return pick(U"\x01\x7F\u00AD\u200B\uE000\uFFFF\U0010FFFF\u001C\u180E");
      default:
        return any_assigned();
    }
  }

  void stretch(std::string& out) {
    if (random_() % 8 == 0) {
      static constexpr std::string_view kWords[] = {
          "'s", "'LL", "'ve", "'Re", "'\u017F", " it's", "\r\n", "\n\n  ", "HTTPServer", "'d"};
      out += kWords[random_() % std::size(kWords)];
      return;
    }
    const unsigned kind = static_cast<unsigned>(random_() % 11);
    const bool repeat = random_() % 4 == 0;
    const char32_t first = character(kind);
    for (size_t n = 1 + random_() % 5; n > 0; --n) {
      utf8::append(out, repeat ? first : character(kind));
    }
  }

  std::mt19937 random_{20240607};
};

std::vector<size_t> matches_of(const Pattern& pattern, std::string_view text) {
  std::vector<size_t> places;
  MatchWalk walk(pattern, text);
  for (Match m; walk.next(m);) {
    places.push_back(m.begin);
    places.push_back(m.end);
  }
  return places;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    out += fmt::format("\\u{{{:X}}}", static_cast<uint32_t>(unicode::next(text, at)));
  }
  return out;
}

TEST(RegexScanners, SplitAsTheGeneralEngineDoes) {
  constexpr int kTexts = 20'000;
  const auto patterns = scanner_patterns();
  ASSERT_GE(patterns.size(), 15U);
  for (const std::string_view pattern : patterns) {
    const auto scanner = find_scanner(pattern);
    ASSERT_NE(scanner, nullptr) << pattern;
    const auto general = compile_regex(pattern, false);
    TextMaker maker;
    for (int i = 0; i < kTexts; ++i) {
      const std::string text = maker.text();
      ASSERT_EQ(matches_of(*scanner, text), matches_of(*general, text))
          << pattern << "\nsplits " << escaped(text);
    }
  }
}

}  // namespace
}  // namespace mlxcel::text
