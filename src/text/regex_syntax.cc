// Oniguruma (Ruby syntax) to PCRE2.
#include <fmt/core.h>

#include <array>
#include <optional>
#include <utility>

#include "text/regex.h"
#include "text/unicode.h"
#include "text/unicode_tables.h"

namespace mlxcel::text {
namespace {

constexpr int kMaxNesting = 200;

// Contents of character classes: what Oniguruma's shorthands mean on Unicode text.
constexpr std::string_view kSpaceSet =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"
    "205f}"
    "\\x{3000}";
constexpr std::string_view kDigitSet = "\\p{Nd}";
constexpr std::string_view kHexSet = "0-9a-fA-F";

// Characters that have one of the categories by newer Unicode data than the engine's.
std::string news_of(unicode::CategorySet set) {
  std::string out;
  const unicode::Table& t = unicode::kCategoryNews;
  for (size_t i = 0; i + 2 < t.size; i += 3) {
    if (((set >> t.data[i + 2]) & 1) != 0) {
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", t.data[i], t.data[i + 1]);
    }
  }
  return out;
}

// The members of a class of categories, completed by the ranges of a difference table, of which
// those already inside the categories must be few enough to leave in.
std::string set_with(std::string_view categories, unicode::CategorySet set,
                     const unicode::Table& difference) {
  std::string out(categories);
  out += news_of(set);
  for (size_t i = 0; i + 1 < difference.size; i += 2) {
    if (!unicode::in(difference.data[i], set)) {
      out += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", difference.data[i], difference.data[i + 1]);
    }
  }
  return out;
}

const std::string& word_set() {
  using enum unicode::Category;
  static const std::string set = set_with(
      "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}",
      unicode::kLetter | unicode::kMark | unicode::set_of(Nd, Nl, Pc), unicode::kOnigurumaWord);
  return set;
}

const std::string& alpha_set() {
  static const std::string set =
      set_with("\\p{L}\\p{Nl}", unicode::kLetter | unicode::set_of(unicode::Category::Nl),
               unicode::kOnigurumaAlpha);
  return set;
}

// Bits of a category's name ("L", "Lu", ...); 0 for another property.
unicode::CategorySet categories_named(std::string_view name) {
  static constexpr std::string_view kOrder =
      "CnCcCfCoCsLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZp";
  unicode::CategorySet set = 0;
  if (name.empty() || name.size() > 2) return set;
  for (size_t i = 0; i * 2 < kOrder.size(); ++i) {
    if (kOrder.substr(i * 2, 2).starts_with(name)) set |= unicode::CategorySet{1} << i;
  }
  return set;
}

class Translator {
 public:
  explicit Translator(std::string_view source) : s_(source) {}

  std::string run() {
    while (at_ < s_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Code::InvalidArgument,
                fmt::format("regular expression \"{}\": {} at byte {}", s_, what, at_));
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  bool starts(std::string_view text) const { return s_.substr(at_).starts_with(text); }
  void copy(size_t n) {
    out_ += s_.substr(at_, n);
    at_ += n;
  }

  void item() {
    switch (peek()) {
      case '\\':
        escape();
        break;
      case '[':
        out_ += char_class(0);
        break;
      case '(':
        group();
        break;
      case '#':
        // An extended-mode comment is passed on as it is; elsewhere '#' stands for itself.
        copy(1);
        break;
      default:
        copy(1);
    }
  }

  // (?m) is "dot matches newline" in Ruby, s in PCRE2; ^ and $ are always line anchors.
  void group() {
    if (++groups_ > kMaxNesting * 10) fail("too many groups");
    if (peek(1) != '?') return copy(1);
    size_t i = 2;
    while (peek(i) == 'i' || peek(i) == 'm' || peek(i) == 'x' || peek(i) == '-') ++i;
    if (i == 2 || (peek(i) != ':' && peek(i) != ')')) return copy(2);
    out_ += "(?";
    for (size_t k = 2; k < i; ++k) out_ += peek(k) == 'm' ? 's' : peek(k);
    at_ += i;
  }

  void escape() {
    if (const auto set = shorthand()) {
      const auto& [content, negated] = *set;
      out_ += negated ? "[^" : "[";
      out_ += content;
      out_ += ']';
      return;
    }
    switch (peek(1)) {
      case 'Z':
        out_ += "(?=\\n?\\z)";
        at_ += 2;
        break;
      case 'b':
        word_boundary(false);
        break;
      case 'B':
        word_boundary(true);
        break;
      default:
        out_ += plain_escape();
    }
  }

  void word_boundary(bool negated) {
    const std::string w = fmt::format("[{}]", word_set());
    out_ += negated ? fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w)
                    : fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w);
    at_ += 2;
  }

  // \s \S \w \W \d \D \h \H: the class content and whether it is negated.
  std::optional<std::pair<std::string_view, bool>> shorthand() {
    std::string_view content;
    switch (peek(1)) {
      case 's':
      case 'S':
        content = kSpaceSet;
        break;
      case 'w':
      case 'W':
        content = word_set();
        break;
      case 'd':
      case 'D':
        content = kDigitSet;
        break;
      case 'h':
      case 'H':
        content = kHexSet;
        break;
      default:
        return std::nullopt;
    }
    const bool negated = peek(1) >= 'A' && peek(1) <= 'Z';
    at_ += 2;
    return std::pair{content, negated};
  }

  // Any other escape, the same inside and outside of classes.
  std::string plain_escape() {
    if (at_ + 1 >= s_.size()) fail("a backslash ends the expression");
    const char c = peek(1);
    if (c == 'u') {
      if (at_ + 6 > s_.size()) fail("\\u needs four hexadecimal digits");
      std::string out = fmt::format("\\x{{{}}}", s_.substr(at_ + 2, 4));
      at_ += 6;
      return out;
    }
    if ((c == 'p' || c == 'P') && peek(2) == '{') return property(c == 'P');
    const size_t n = 1 + (static_cast<uint8_t>(c) < 0x80 ? 1 : utf8_length(at_ + 1));
    std::string out(s_.substr(at_, n));
    at_ += n;
    if (static_cast<uint8_t>(c) >= 0x80) out.erase(0, 1);  // an escaped non-ASCII character
    return out;
  }

  size_t utf8_length(size_t at) const {
    size_t end = at;
    unicode::next(s_, end);
    return end - at;
  }

  // \p{Alpha}, \p{Han}, \p{^L}, \p{Letter}: PCRE2 knows short categories and scripts.
  std::string property(bool negated) {
    const size_t close = s_.find('}', at_);
    if (close == std::string_view::npos) fail("\\p{ without }");
    std::string name;
    for (const char c : s_.substr(at_ + 3, close - at_ - 3)) {
      if (c != '_' && c != ' ' && c != '-') name += c;
    }
    at_ = close + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    std::string lower = name;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kNames{{
        {"letter", "L"},
        {"uppercaseletter", "Lu"},
        {"lowercaseletter", "Ll"},
        {"titlecaseletter", "Lt"},
        {"modifierletter", "Lm"},
        {"otherletter", "Lo"},
        {"mark", "M"},
        {"nonspacingmark", "Mn"},
        {"spacingmark", "Mc"},
        {"enclosingmark", "Me"},
        {"number", "N"},
        {"decimalnumber", "Nd"},
        {"letternumber", "Nl"},
        {"othernumber", "No"},
        {"punctuation", "P"},
        {"connectorpunctuation", "Pc"},
        {"dashpunctuation", "Pd"},
        {"openpunctuation", "Ps"},
        {"closepunctuation", "Pe"},
        {"initialpunctuation", "Pi"},
        {"finalpunctuation", "Pf"},
        {"otherpunctuation", "Po"},
        {"symbol", "S"},
        {"mathsymbol", "Sm"},
        {"currencysymbol", "Sc"},
        {"modifiersymbol", "Sk"},
        {"othersymbol", "So"},
        {"separator", "Z"},
        {"other", "C"},
        {"control", "Cc"},
    }};
    for (const auto& [full, brief] : kNames) {
      if (lower == full) name = brief;
    }
    if (name.size() <= 2 && !name.empty()) {  // categories are written with one capital
      name[0] = static_cast<char>(name[0] & ~0x20);
      if (name.size() == 2) name[1] = static_cast<char>(name[1] | 0x20);
    }
    if (const std::string posix = posix_set(lower); !posix.empty()) {
      return nested(posix, negated);
    }
    const std::string news = news_of(categories_named(name));
    if (!news.empty()) return nested(fmt::format("\\p{{{}}}{}", name, news), negated);
    return fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name);
  }

  // The bracket names of POSIX as Oniguruma reads them on Unicode text; empty when unknown.
  static std::string posix_set(std::string_view name) {
    if (name == "alnum") return alpha_set() + "\\p{Nd}";
    if (name == "alpha" || name == "alphabetic") return alpha_set();
    if (name == "blank") return "\\x{9}\\p{Zs}";
    if (name == "cntrl") return "\\p{Cc}";
    if (name == "digit") return std::string(kDigitSet);
    if (name == "lower" || name == "lowercase") return "\\p{Ll}";
    if (name == "upper" || name == "uppercase") return "\\p{Lu}";
    if (name == "punct") return "\\p{P}$+<=>^`|~";
    if (name == "space" || name == "whitespace") return std::string(kSpaceSet);
    if (name == "xdigit") return std::string(kHexSet);
    if (name == "word") return word_set();
    if (name == "ascii") return "\\x{0}-\\x{7f}";
    if (name == "any") return "\\x{0}-\\x{10ffff}";
    return {};
  }

  // A negated set inside a class cannot be written in PCRE2; it is kept aside as an alternative.
  std::string nested(std::string_view content, bool negated) {
    if (in_class_) {
      if (!negated) return std::string(content);
      extra_.push_back(fmt::format("[^{}]", content));
      return {};
    }
    return fmt::format("[{}{}]", negated ? "^" : "", content);
  }

  // One operand of &&: set members, and sub-expressions that each match one character.
  struct Operand {
    std::string members;
    std::vector<std::string> alternatives;
    std::string text() const {
      std::string out;
      if (!members.empty()) out = fmt::format("[{}]", members);
      for (const std::string& a : alternatives) {
        if (!out.empty()) out += '|';
        out += a;
      }
      if (out.empty()) return "(?!)";
      return alternatives.empty() ? out : fmt::format("(?:{})", out);
    }
  };

  // Translates [...] including nested classes and && to an expression that matches one character.
  std::string char_class(int depth) {
    if (depth > kMaxNesting) fail("character classes are nested too deeply");
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<Operand> operands(1);
    const bool outer_in_class = std::exchange(in_class_, true);
    std::vector<std::string> outer_extra = std::exchange(extra_, {});
    for (bool first = true;; first = false) {
      if (at_ >= s_.size()) fail("[ without ]");
      if (peek() == ']' && !first) break;
      if (starts("&&")) {
        at_ += 2;
        finish_operand(operands.back());
        operands.emplace_back();
        continue;
      }
      class_member(operands.back(), depth);
    }
    ++at_;
    finish_operand(operands.back());
    in_class_ = outer_in_class;
    extra_ = std::move(outer_extra);
    if (operands.size() == 1 && operands[0].alternatives.empty()) {
      if (operands[0].members.empty()) return negated ? "[\\x{0}-\\x{10ffff}]" : "(?!)";
      return fmt::format("[{}{}]", negated ? "^" : "", operands[0].members);
    }
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i) {
      all += fmt::format("(?={})", operands[i].text());
    }
    all += operands.back().text();
    return negated ? fmt::format("(?:(?!{})[\\x{{0}}-\\x{{10ffff}}])", all)
                   : fmt::format("(?:{})", all);
  }

  void finish_operand(Operand& operand) {
    for (std::string& e : extra_) operand.alternatives.push_back(std::move(e));
    extra_.clear();
  }

  void class_member(Operand& operand, int depth) {
    if (starts("[:")) {
      const size_t close = s_.find(":]", at_ + 2);
      const bool negated = peek(2) == '^';
      const size_t begin = at_ + (negated ? 3 : 2);
      if (close != std::string_view::npos && close >= begin) {
        const std::string posix = posix_set(s_.substr(begin, close - begin));
        if (!posix.empty()) {
          at_ = close + 2;
          operand.members += nested(posix, negated);
          return;
        }
      }
    }
    if (peek() == '[') {
      operand.alternatives.push_back(char_class(depth + 1));
      return;
    }
    if (peek() != '\\') {
      // PCRE2 would take "[" for a POSIX name and knows no other special character here.
      copy_to(operand.members);
      return;
    }
    if (const auto set = shorthand()) {
      operand.members += nested(set->first, set->second);
      return;
    }
    if (peek(1) == 'b') {
      operand.members += "\\x{8}";
      at_ += 2;
      return;
    }
    operand.members += plain_escape();
  }

  void copy_to(std::string& out) {
    const size_t n = utf8_length(at_);
    out += s_.substr(at_, n);
    at_ += n;
  }

  std::string_view s_;
  size_t at_ = 0;
  std::string out_;
  int groups_ = 0;
  bool in_class_ = false;
  std::vector<std::string> extra_;
};

}  // namespace

std::string oniguruma_to_pcre2(std::string_view pattern) {
  if (!unicode::is_valid(pattern)) {
    throw Error(Code::InvalidArgument, "a regular expression is not valid UTF-8");
  }
  return Translator(pattern).run();
}

}  // namespace mlxcel::text
