#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja_heap.h"
#include "text/jinja_literals.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) root();
    add(Tok::End, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(const std::string& message) const {
    throw Failure(Fault::Syntax, message, line_);
  }
  std::string_view rest() const { return std::string_view(source_).substr(pos_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t bytes) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(pos_),
                                    source_.begin() + static_cast<ptrdiff_t>(pos_ + bytes), '\n'));
    pos_ += bytes;
  }
  void skip_space() { advance(rest().size() - strip_left(rest()).size()); }
  void add(Tok kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text), 0, 0.0});
  }

  /// Emits the text before a tag at `end`. `sign` is the tag's whitespace mark or 0.
  void data(size_t end, char sign, bool variable) {
    std::string_view text = std::string_view(source_).substr(pos_, end - pos_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && !variable) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && strip_left(text.substr(start)).empty()) {
        text = text.substr(0, start);
      }
    }
    if (!text.empty()) add(Tok::Data, std::string(text));
    advance(end - pos_);
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void root() {
    size_t at = pos_;
    while (true) {
      at = source_.find('{', at);
      if (at == std::string::npos || at + 1 >= source_.size()) {
        add(Tok::Data, source_.substr(pos_));
        advance(source_.size() - pos_);
        return;
      }
      const char kind = source_[at + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++at;
    }
    const char kind = source_[at + 1];
    const char sign = sign_at(at + 2);
    data(at, sign, kind == '{');
    const size_t raw = kind == '%' ? raw_tag(at, "raw", false) : 0;
    if (raw != 0) {
      advance(raw - pos_);
      raw_block();
      return;
    }
    const Tok begin = kind == '%' ? Tok::BlockBegin : Tok::VariableBegin;
    if (kind != '#') add(begin, "");
    advance(sign != '\0' ? 3 : 2);
    line_starting_ = false;
    if (kind == '#') {
      comment();
    } else {
      tag(kind == '%');
    }
  }

  /// The end of `{% word %}` that starts at `at`, or 0. The newline after an end tag is trimmed.
  size_t raw_tag(size_t at, std::string_view word, bool trim) const {
    const std::string_view all = source_;
    size_t i = at + 2;
    if (sign_at(i) != '\0') ++i;
    const auto spaces = [&] { i = all.size() - strip_left(all.substr(i)).size(); };
    spaces();
    if (!all.substr(i).starts_with(word)) return 0;
    i += word.size();
    spaces();
    if (all.substr(i).starts_with("-%}")) {
      i += 3;
      spaces();
      return i;
    }
    if (trim && all.substr(i).starts_with("+%}")) return i + 3;
    if (!all.substr(i).starts_with("%}")) return 0;
    i += 2;
    return trim && i < all.size() && all[i] == '\n' ? i + 1 : i;
  }

  void raw_block() {
    line_starting_ = source_[pos_ - 1] == '\n';
    for (size_t at = source_.find("{%", pos_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      const size_t end = raw_tag(at, "endraw", true);
      if (end == 0) continue;
      data(at, sign_at(at + 2), false);
      advance(end - pos_);
      line_starting_ = source_[pos_ - 1] == '\n';
      return;
    }
    // Jinja lets a template end right after the tag.
    if (pos_ < source_.size()) error("Missing end of raw directive");
  }

  void comment() {
    const size_t close = source_.find("#}", pos_);
    if (close == std::string::npos) error("Missing end of comment tag");
    const char sign = close > pos_ ? source_[close - 1] : '\0';
    advance(close + 2 - pos_);
    end_tag(sign, true);
  }

  /// What follows a closing delimiter: `-` eats all space, a plain block or comment one newline.
  void end_tag(char sign, bool trim) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trim && looking_at("\n")) {
      advance(1);
    }
    line_starting_ = source_[pos_ - 1] == '\n';
  }

  void tag(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    brackets_.clear();
    while (true) {
      skip_space();
      if (pos_ >= source_.size()) return;  // the parser says what is missing
      if (brackets_.empty() && end_of_tag(block, close)) return;
      word();
    }
  }

  bool end_of_tag(bool block, std::string_view close) {
    const char sign = sign_at(pos_);
    const bool signed_end = sign == '-' || (sign == '+' && block);
    const size_t skip = signed_end ? 1 : 0;
    if (!rest().substr(skip).starts_with(close)) return false;
    add(block ? Tok::BlockEnd : Tok::VariableEnd, "");
    advance(skip + 2);
    end_tag(signed_end ? sign : '\0', block);
    return true;
  }

  void word() {
    const char c = source_[pos_];
    const size_t name = name_length(rest());
    if (c >= '0' && c <= '9') return number();
    if (name > 0) {
      add(Tok::Name, std::string(rest().substr(0, name)));
      return advance(name);
    }
    if (c == '\'' || c == '"') return string(c);
    operator_token();
  }

  void number() {
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    const size_t real = after_dot ? 0 : float_length(rest());
    const size_t length = real > 0 ? real : integer_length(rest());
    Token token{real > 0 ? Tok::Float : Tok::Integer, line_, std::string(rest().substr(0, length)),
                0, 0.0};
    if (real > 0) {
      token.real = parse_float_literal(token.text);
    } else if (!parse_integer_literal(token.text, token.integer)) {
      error("the integer " + token.text + " does not fit 64 bits");
    }
    tokens_.push_back(std::move(token));
    advance(length);
  }

  void string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error(std::string("unexpected char ") + quote);
    std::string value, problem;
    if (!unescape(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1), value, problem)) {
      error(problem);
    }
    add(Tok::String, std::move(value));
    advance(end + 1 - pos_);
  }

  void operator_token() {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* const found = std::find_if(kOperators.begin(), kOperators.end(),
                                           [&](std::string_view op) { return looking_at(op); });
    if (found == kOperators.end()) {
      const auto length = static_cast<size_t>(utf8::decode(rest()).length);
      error("unexpected char '" + std::string(rest().substr(0, length)) + "'");
    }
    balance((*found)[0]);
    add(Tok::Operator, std::string(*found));
    advance(found->size());
  }

  void balance(char c) {
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c == '{') brackets_ += '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) error(std::string("unexpected '") + c + "'");
    if (brackets_.back() != c) {
      error(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
    }
    brackets_.pop_back();
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // closing brackets still to come
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case Tok::Data:
      return "template data / text";
    case Tok::BlockBegin:
      return "begin of statement block";
    case Tok::BlockEnd:
      return "end of statement block";
    case Tok::VariableBegin:
      return "begin of print statement";
    case Tok::VariableEnd:
      return "end of print statement";
    case Tok::End:
      return "end of template";
    default:
      return token.text;
  }
}

}  // namespace mlxcel::text::jinja
