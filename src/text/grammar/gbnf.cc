#include "text/grammar/gbnf.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/builder_impl.h"

namespace mlxcel::text::grammar {

namespace {

using Expr = GrammarBuilder::Expr;

class Parser {
 public:
  Parser(GrammarBuilder& builder, std::string_view source, const Tokenizer* tokenizer)
      : b_(builder), text_(source), tokenizer_(tokenizer) {}

  Expr run() {
    if (!utf8::is_valid(text_)) fail("the grammar is not valid UTF-8");
    space(true);
    while (more()) rule();
    const auto root = names_.find("root");
    if (root == names_.end() || !root->second.defined) fail("there is no rule named root");
    for (const auto& [name, r] : names_) {
      if (!r.defined) {
        at_ = r.first_use;
        fail(fmt::format("the rule {} is used but not defined", name));
      }
    }
    return b_.call(root->second.id);
  }

 private:
  struct Name {
    GrammarBuilder::RuleId id = 0;
    bool defined = false;
    size_t first_use = 0;
  };

  [[noreturn]] void fail(std::string_view what) const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t start = before.rfind('\n');
    const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    throw Error(Code::InvalidArgument,
                fmt::format("grammar, line {}, column {}: {}", line, column, what));
  }
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool take(std::string_view s) {
    if (!text_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  }
  // Blanks and comments; line ends too when `lines`.
  void space(bool lines) {
    while (more()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else if (c == '#') {
        while (more() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else {
        return;
      }
    }
  }
  std::string name() {
    const size_t begin = at_;
    while (more() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("a rule name is expected here");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Name& lookup(const std::string& name, size_t place) {
    const auto [it, fresh] = names_.emplace(name, Name{});
    if (fresh) it->second = {.id = b_.declare(name), .defined = false, .first_use = place};
    return it->second;
  }

  void rule() {
    const size_t place = at_;
    const std::string n = name();
    space(false);
    if (!take("::=")) fail(fmt::format("::= is expected behind the rule name {}", n));
    space(true);
    const Expr body = alternatives(0);
    Name& entry = lookup(n, place);
    entry.defined = true;
    b_.define(entry.id, body);
    if (more() && peek() != '\n' && peek() != '\r') {
      fail(peek() == ')' ? "unmatched ')'" : "the end of the line is expected here");
    }
    space(true);
  }

  Expr alternatives(int depth) {
    if (depth > b_.impl().limits.max_depth) fail("parentheses nested too deeply");
    std::vector<Expr> choices{sequence(depth)};
    while (more() && peek() == '|') {
      ++at_;
      space(true);
      choices.push_back(sequence(depth));
    }
    return b_.alt(std::move(choices));
  }

  Expr sequence(int depth) {
    std::vector<Expr> parts;
    while (more()) {
      const std::optional<Expr> item = element(depth);
      if (!item) break;
      space(depth > 0);
      parts.push_back(repetitions(*item, depth));
    }
    if (parts.empty()) return b_.empty();
    return b_.seq(std::move(parts));
  }

  std::optional<Expr> element(int depth) {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return b_.impl().set(char_class());
    if (c == '.') {
      ++at_;
      return b_.impl().set(CharSet::all());
    }
    if (c == '(') {
      const size_t place = at_++;
      space(true);
      const Expr body = alternatives(depth + 1);
      if (!take(")")) {
        at_ = place;
        fail("this '(' has no ')'");
      }
      return body;
    }
    if (c == '<' || (c == '!' && text_.substr(at_).starts_with("!<"))) return token();
    if (!is_name(c)) return {};
    const size_t place = at_;
    const std::string n = name();
    return b_.call(lookup(n, place).id);
  }

  Expr repetitions(Expr item, int depth) {
    while (more()) {
      const char c = peek();
      int32_t min = 0;
      int32_t max = GrammarBuilder::kUnbounded;
      if (c == '*') {
        ++at_;
      } else if (c == '+') {
        ++at_;
        min = 1;
      } else if (c == '?') {
        ++at_;
        max = 1;
      } else if (c == '{') {
        ++at_;
        space(depth > 0);
        min = number();
        max = min;
        space(depth > 0);
        if (take(",")) {
          space(depth > 0);
          max = peek() == '}' ? GrammarBuilder::kUnbounded : number();
          space(depth > 0);
        }
        if (!take("}")) fail("'}' is expected here");
        if (max >= 0 && max < min) fail("the bounds of this repetition are reversed");
      } else {
        break;
      }
      item = b_.repeat(item, min, max);
      space(depth > 0);
    }
    return item;
  }

  int32_t number() {
    int64_t value = 0;
    const size_t begin = at_;
    while (more() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > b_.impl().limits.max_repeat) {
        fail(fmt::format("a number above {}", b_.impl().limits.max_repeat));
      }
    }
    if (at_ == begin) fail("a number is expected here");
    return static_cast<int32_t>(value);
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9';
      const char l = static_cast<char>(c | 0x20);
      if (!digit && !(l >= 'a' && l <= 'f')) fail("a hexadecimal digit is expected here");
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : l - 'a' + 10);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) fail("this is no character");
    return value;
  }

  char32_t character() {
    if (!take("\\")) {
      const utf8::Decoded d = utf8::decode(text_.substr(at_));
      at_ += static_cast<size_t>(d.length);
      return d.code_point;
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'n':
        return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
      case '/':
      case '\'':
        return static_cast<char32_t>(c);
      default:
        at_ -= 1;
        fail("this escape is unknown");
    }
  }

  Expr literal() {
    const size_t place = at_++;
    std::string bytes;
    while (true) {
      if (!more()) {
        at_ = place;
        fail("this text in quotes does not end");
      }
      if (take("\"")) break;
      utf8::append(bytes, character());
    }
    return b_.literal(bytes);
  }

  CharSet char_class() {
    const size_t place = at_++;
    const bool negate = take("^");
    CharSet set;
    while (true) {
      if (!more()) {
        at_ = place;
        fail("this '[' has no ']'");
      }
      if (take("]")) break;
      const char32_t lo = character();
      char32_t hi = lo;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        hi = character();
      }
      if (hi < lo) fail("the ends of this range are reversed");
      set.add(lo, hi);
    }
    return negate ? set.negated() : set;
  }

  Expr token() {
    const size_t place = at_;
    const bool other = take("!");
    TokenId id = -1;
    if (take("<[")) {
      id = number();
      if (!take("]>")) fail("]> is expected behind the id of a token");
    } else {
      const size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) fail("this token has no '>'");
      const std::string_view name = text_.substr(at_, end + 1 - at_);
      at_ = end + 1;
      if (tokenizer_ == nullptr) {
        at_ = place;
        fail(fmt::format("{} names a token, and there is no vocabulary to look it up in", name));
      }
      const std::optional<TokenId> known = tokenizer_->id_of(name);
      if (!known) {
        at_ = place;
        fail(fmt::format("the vocabulary has no token {}", name));
      }
      id = *known;
    }
    if (tokenizer_ != nullptr && id >= tokenizer_->vocab_size()) {
      at_ = place;
      fail(fmt::format("the vocabulary has no token {}", id));
    }
    Terminal token;
    token.kind = Terminal::Kind::Token;
    token.tokens.push_back(id);
    token.other_tokens = other;
    return b_.impl().terminal(std::move(token));
  }

  GrammarBuilder& b_;
  std::string_view text_;
  const Tokenizer* tokenizer_;
  size_t at_ = 0;
  std::unordered_map<std::string, Name> names_;
};

}  // namespace

Expr compile_gbnf(GrammarBuilder& builder, std::string_view source, const Tokenizer* tokenizer) {
  return Parser(builder, source, tokenizer).run();
}

}  // namespace mlxcel::text::grammar
