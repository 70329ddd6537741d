// The parser of ECMA-262 patterns.
#include <fmt/core.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/regular.h"
#include "text/unicode.h"

namespace mlxcel::text::grammar {

namespace {

constexpr int kMaxDepth = 200;
constexpr int32_t kMaxRepeat = 100'000;

using Kind = RegexNode::Kind;

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  Regex run() {
    regex_.root = alternatives(0);
    if (at_ < text_.size()) fail("unmatched ')'");
    return std::move(regex_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Code::InvalidArgument,
                fmt::format("the pattern \"{}\" is not usable: {} at byte {}", utf8::repair(text_),
                            what, at_));
  }
  bool more() const { return at_ < text_.size(); }
  bool take(char c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view s) {
    if (!text_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  char32_t next_code_point() {
    const utf8::Decoded d = utf8::decode(text_.substr(at_));
    if (!d.valid) fail("ill-formed UTF-8");
    at_ += static_cast<size_t>(d.length);
    return d.code_point;
  }

  uint32_t alternatives(int depth) {
    if (depth > kMaxDepth) fail("groups nested too deeply");
    RegexNode alt{.kind = Kind::Alt};
    do {
      alt.kids.push_back(sequence(depth));
    } while (take('|'));
    return alt.kids.size() == 1 ? alt.kids[0] : regex_.add(std::move(alt));
  }

  uint32_t sequence(int depth) {
    RegexNode cat{.kind = Kind::Cat};
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      cat.kids.push_back(quantified(depth));
    }
    return cat.kids.size() == 1 ? cat.kids[0] : regex_.add(std::move(cat));
  }

  uint32_t quantified(int depth) {
    uint32_t atom = this->atom(depth);
    while (more()) {
      RegexNode repeat{.kind = Kind::Repeat, .kids = {atom}};
      if (take('*')) {
        repeat.min = 0;
      } else if (take('+')) {
        repeat.min = 1;
      } else if (take('?')) {
        repeat.max = 1;
      } else if (!(text_[at_] == '{' && bounds(repeat))) {
        break;
      }
      const Kind kind = regex_.nodes[atom].kind;
      if (kind == Kind::Begin || kind == Kind::End || kind == Kind::Look) {
        fail("a repetition of an assertion");
      }
      take('?');  // lazy or greedy: the same language
      atom = regex_.add(std::move(repeat));
    }
    return atom;
  }

  bool bounds(RegexNode& repeat) {
    const size_t begin = at_++;
    const auto number = [&]() -> std::optional<int32_t> {
      int64_t value = 0;
      const size_t first = at_;
      while (more() && text_[at_] >= '0' && text_[at_] <= '9') {
        value = value * 10 + (text_[at_++] - '0');
        if (value > kMaxRepeat) fail(fmt::format("a repetition count above {}", kMaxRepeat));
      }
      if (at_ == first) return {};
      return static_cast<int32_t>(value);
    };
    const auto min = number();
    const bool comma = take(',');
    const auto max = comma ? number() : min;
    if (!min || !take('}')) {
      at_ = begin;
      fail("'{' is no repetition here; write \\{ for a brace");
    }
    repeat.min = *min;
    repeat.max = max ? *max : -1;
    if (repeat.max >= 0 && repeat.max < repeat.min) fail("a repetition with its bounds reversed");
    return true;
  }

  uint32_t atom(int depth) {
    const char c = text_[at_];
    switch (c) {
      case '^':
        ++at_;
        return regex_.add({.kind = Kind::Begin});
      case '$':
        ++at_;
        return regex_.add({.kind = Kind::End});
      case '.': {
        ++at_;
        CharSet breaks{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
        return set(breaks.negated());
      }
      case '(':
        return group(depth);
      case '[':
        return set(character_class());
      case '*':
      case '+':
      case '?':
        fail("nothing to repeat");
      case ')':
        fail("unmatched ')'");
      case '{':
        fail("'{' is no repetition here; write \\{ for a brace");
      default:
        break;
    }
    if (c == '\\') {
      ++at_;
      CharSet s;
      escape(s, false);
      return set(std::move(s));
    }
    const char32_t p = next_code_point();
    return set(CharSet{{p, p}});
  }

  uint32_t set(CharSet s) { return regex_.add({.kind = Kind::Set, .set = std::move(s)}); }

  uint32_t group(int depth) {
    ++at_;
    std::optional<bool> look;  // negative?
    if (take("?:")) {
    } else if (take("?=")) {
      look = false;
    } else if (take("?!")) {
      look = true;
    } else if (take("?<=") || take("?<!")) {
      fail("a look-behind, which is not supported");
    } else if (take("?P<") || take("?<")) {
      while (more() && text_[at_] != '>') ++at_;
      if (!take('>')) fail("an unfinished group name");
    } else if (take("?")) {
      fail("an unknown kind of group");
    }
    const uint32_t body = alternatives(depth + 1);
    if (!take(')')) fail("a '(' without ')'");
    if (!look) return body;
    return regex_.add({.kind = Kind::Look, .kids = {body}, .negative = *look});
  }

  int hex_digit() {
    if (!more()) return -1;
    const char c = text_[at_];
    const int v = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
    if (v >= 0) ++at_;
    return v;
  }
  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int d = hex_digit();
      if (d < 0) fail("an escape without its hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(d);
    }
    return value;
  }
  char32_t unicode_escape() {
    if (take('{')) {
      char32_t value = 0;
      for (int d = hex_digit(); d >= 0; d = hex_digit()) {
        value = value * 16 + static_cast<char32_t>(d);
        if (value > 0x10FFFF) fail("a code point above U+10FFFF");
      }
      if (!take('}')) fail("an unfinished \\u{...}");
      return value;
    }
    const char32_t high = hex(4);
    if (high < 0xD800 || high > 0xDBFF || !take("\\u")) return high;
    const char32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("a broken surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  // Adds what the escape behind a backslash stands for. Returns the single character, if it is one.
  std::optional<char32_t> escape(CharSet& out, bool in_class) {
    if (!more()) fail("a trailing backslash");
    const char c = text_[at_];
    const auto one = [&](char32_t p) -> std::optional<char32_t> {
      out.add(p, p);
      return p;
    };
    const auto many = [&](CharSet s, bool negate) -> std::optional<char32_t> {
      out.add(negate ? s.negated() : s);
      return {};
    };
    ++at_;
    switch (c) {
      case 'd':
      case 'D':
        return many(digit_set(), c == 'D');
      case 'w':
      case 'W':
        return many(word_set(), c == 'W');
      case 's':
      case 'S':
        return many(space_set(), c == 'S');
      case 'p':
      case 'P': {
        if (!take('{')) fail("\\p without {...}");
        const size_t end = text_.find('}', at_);
        if (end == std::string_view::npos) fail("an unfinished \\p{...}");
        CharSet s;
        const std::string_view name = text_.substr(at_, end - at_);
        if (!property_set(name, s)) fail(fmt::format("the unknown property \\p{{{}}}", name));
        at_ = end + 1;
        return many(std::move(s), c == 'P');
      }
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(hex(2));
      case 'u':
        return one(unicode_escape());
      case 'c': {
        if (!more()) fail("an unfinished \\c");
        const char l = text_[at_++];
        if (!((l >= 'a' && l <= 'z') || (l >= 'A' && l <= 'Z'))) fail("\\c without a letter");
        return one(static_cast<char32_t>(l & 31));
      }
      case 'b':
        if (in_class) return one('\b');
        fail("the word boundary \\b, which is not supported");
      case 'B':
        fail("the word boundary \\B, which is not supported");
      case 'k':
        fail("a back reference, which is not supported");
      default:
        break;
    }
    if (c == '0') return one(0);
    if (c >= '1' && c <= '9') fail("a back reference, which is not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      --at_;
      fail(fmt::format("the unknown escape \\{}", c));
    }
    --at_;
    return one(next_code_point());  // an escaped punctuation mark is itself
  }

  CharSet character_class() {
    ++at_;
    const bool negate = take('^');
    CharSet out;
    while (true) {
      if (!more()) fail("a '[' without ']'");
      if (take(']')) break;
      const std::optional<char32_t> lo = class_atom(out);
      if (!more() || text_[at_] != '-' || text_.substr(at_).starts_with("-]")) continue;
      ++at_;
      if (!more()) fail("a '[' without ']'");
      CharSet ignored;
      const std::optional<char32_t> hi = class_atom(ignored);
      if (!lo || !hi) {  // a set beside '-': the dash is itself, as browsers have it
        out.add('-', '-');
        out.add(ignored);
        continue;
      }
      if (*lo > *hi) fail("a range with its ends reversed");
      out.add(*lo, *hi);
    }
    return negate ? out.negated() : out;
  }
  std::optional<char32_t> class_atom(CharSet& out) {
    if (take('\\')) return escape(out, true);
    const char32_t p = next_code_point();
    out.add(p, p);
    return p;
  }

  std::string_view text_;
  size_t at_ = 0;
  Regex regex_;
};

struct Property {
  std::string_view short_name, long_name;
  unicode::CategorySet set;
};
using unicode::Category;
using unicode::set_of;
constexpr Property kProperties[] = {
    {"L", "Letter", unicode::kLetter},
    {"M", "Mark", unicode::kMark},
    {"N", "Number", unicode::kNumber},
    {"P", "Punctuation", unicode::kPunctuation},
    {"S", "Symbol", unicode::kSymbol},
    {"Z", "Separator", set_of(Category::Zs, Category::Zl, Category::Zp)},
    {"Lu", "Uppercase_Letter", set_of(Category::Lu)},
    {"Ll", "Lowercase_Letter", set_of(Category::Ll)},
    {"Lt", "Titlecase_Letter", set_of(Category::Lt)},
    {"Lm", "Modifier_Letter", set_of(Category::Lm)},
    {"Lo", "Other_Letter", set_of(Category::Lo)},
    {"Mn", "Nonspacing_Mark", set_of(Category::Mn)},
    {"Mc", "Spacing_Mark", set_of(Category::Mc)},
    {"Me", "Enclosing_Mark", set_of(Category::Me)},
    {"Nd", "Decimal_Number", set_of(Category::Nd)},
    {"Nl", "Letter_Number", set_of(Category::Nl)},
    {"No", "Other_Number", set_of(Category::No)},
    {"Pc", "Connector_Punctuation", set_of(Category::Pc)},
    {"Pd", "Dash_Punctuation", set_of(Category::Pd)},
    {"Ps", "Open_Punctuation", set_of(Category::Ps)},
    {"Pe", "Close_Punctuation", set_of(Category::Pe)},
    {"Pi", "Initial_Punctuation", set_of(Category::Pi)},
    {"Pf", "Final_Punctuation", set_of(Category::Pf)},
    {"Po", "Other_Punctuation", set_of(Category::Po)},
    {"Sm", "Math_Symbol", set_of(Category::Sm)},
    {"Sc", "Currency_Symbol", set_of(Category::Sc)},
    {"Sk", "Modifier_Symbol", set_of(Category::Sk)},
    {"So", "Other_Symbol", set_of(Category::So)},
    {"Zs", "Space_Separator", set_of(Category::Zs)},
    {"Zl", "Line_Separator", set_of(Category::Zl)},
    {"Zp", "Paragraph_Separator", set_of(Category::Zp)},
    {"Cc", "Control", set_of(Category::Cc)},
    {"Cf", "Format", set_of(Category::Cf)},
    {"digit", "Digit", set_of(Category::Nd)},
};

}  // namespace

Regex parse_regex(std::string_view pattern) { return Parser(pattern).run(); }

CharSet digit_set() { return {{'0', '9'}}; }
CharSet word_set() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharSet space_set() {
  return {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

bool property_set(std::string_view name, CharSet& out) {
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  for (const Property& p : kProperties) {
    if (name != p.short_name && name != p.long_name) continue;
    std::vector<CodeRange> found;
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
      if (!unicode::in(c, p.set)) continue;
      if (!found.empty() && found.back().hi + 1 == c) {
        found.back().hi = c;
      } else {
        found.push_back({c, c});
      }
    }
    out.add(CharSet(std::move(found)));
    return true;
  }
  return false;
}

}  // namespace mlxcel::text::grammar
