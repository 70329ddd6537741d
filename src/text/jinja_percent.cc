// printf-style formatting: the % operator on text and the format filter.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_number_format.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, std::string_view format, const Value& values, bool escaped)
      : runtime_(runtime), format_(format), values_(values), out_(runtime), escaped_(escaped) {}

  std::string run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(format_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ < format_.size()) directive();
    }
    const bool mapping = values_.is_dict();
    const size_t given = values_.is(Type::Tuple) ? values_.items().size() : 1;
    if (!mapping && next_ < given) {
      fail(Fault::Type, "not all arguments converted during string formatting");
    }
    return out_.take();
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fail(Fault::Value, "incomplete format");
    return format_[at_];
  }

  Value take_value() {
    if (values_.is(Type::Tuple)) {
      if (next_ >= values_.items().size())
        fail(Fault::Type, "not enough arguments for format string");
      return values_.items()[next_++];
    }
    if (next_++ > 0) fail(Fault::Type, "not enough arguments for format string");
    return values_;
  }

  void read_key() {
    size_t depth = 1, end = at_ + 1;
    for (; end < format_.size() && depth > 0; ++end) {
      depth += format_[end] == '(' ? 1 : 0;
      depth -= format_[end] == ')' ? 1 : 0;
    }
    if (depth > 0) fail(Fault::Value, "incomplete format key");
    if (!values_.is_dict()) fail(Fault::Type, "format requires a mapping");
    const std::string_view key = format_.substr(at_ + 1, end - at_ - 2);
    const Value* value = values_.as<DictObject>()->find(key);
    if (value == nullptr) fail(Fault::Lookup, repr_string(key));
    keyed_ = *value;
    has_key_ = true;
    at_ = end;
  }

  int64_t read_number() {
    if (peek() == '*') {
      ++at_;
      const Value value = take_value();
      if (!value.is_integral()) fail(Fault::Type, "* wants int");
      return value.integer();
    }
    int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = std::min<int64_t>(number * 10 + (format_[at_++] - '0'), INT32_MAX);
    }
    return number;
  }

  void directive() {
    ++at_;
    left_ = zero_ = alternate_ = has_key_ = false;
    sign_ = '\0';
    precision_ = -1;
    if (peek() == '(') read_key();
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') {
        left_ = true;
      } else if (c == '0') {
        zero_ = true;
      } else if (c == '#') {
        alternate_ = true;
      } else if (c == '+' || (c == ' ' && sign_ != '+')) {
        sign_ = c;
      } else if (c != ' ') {
        break;
      }
    }
    int64_t width = read_number();
    if (width < 0) {
      left_ = true;
      width = -std::max<int64_t>(width, -INT32_MAX);
    }
    width_ = checked_width(runtime_, width);
    if (peek() == '.') {
      ++at_;
      precision_ = checked_width(runtime_, std::max<int64_t>(0, read_number()));
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    convert(format_[at_++]);
  }

  void convert(char kind) {
    if (kind == '%') return pad("", "%", false);
    const Value value = has_key_ ? keyed_ : take_value();
    switch (kind) {
      case 's':
      case 'r':
      case 'a': {
        std::string text = kind == 's' ? to_str(runtime_, value) : to_repr(runtime_, value);
        if (escaped_ && !(kind == 's' && value.is_markup())) text = escape_html(text);
        if (precision_ >= 0)
          text = text.substr(0, byte_offset(text, static_cast<size_t>(precision_)));
        return pad("", text, false);
      }
      case 'c':
        return pad("", character(value), false);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return integer(kind, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return real(kind, value);
      default:
        fail(Fault::Value, std::string("unsupported format character '") + kind + "'");
    }
  }

  std::string character(const Value& value) const {
    if (value.is_string() && utf8::count(value.text()) == 1) return std::string(value.text());
    if (!value.is_integral()) fail(Fault::Type, "%c requires int or char");
    if (value.integer() < 0 || value.integer() > 0x10FFFF) {
      fail(Fault::Overflow, "%c arg not in range(0x110000)");
    }
    std::string out;
    utf8::append(out, static_cast<char32_t>(value.integer()));
    return out;
  }

  void integer(char kind, const Value& value) {
    const bool decimal = kind == 'd' || kind == 'i' || kind == 'u';
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number() || (!decimal && value.is(Type::Float))) {
      fail(Fault::Type, std::string("%") + kind +
                            " format: " + (decimal ? "a real number" : "an integer") +
                            " is required, not " + type_name(value));
    }
    int64_t number = value.integer();
    if (value.is(Type::Float)) {
      if (!(std::abs(value.real()) < 0x1p63)) {
        fail(Fault::Overflow, "cannot convert the float to an integer");
      }
      number = static_cast<int64_t>(value.real());
    }
    const int base = decimal ? 10 : kind == 'o' ? 8 : 16;
    std::string digits = digits_of(magnitude_of(number), base);
    const int missing = precision_ - static_cast<int>(digits.size());
    if (missing > 0) digits.insert(0, static_cast<size_t>(missing), '0');
    std::string prefix = sign_of(number < 0);
    if (alternate_ && !decimal) prefix += kind == 'o' ? "0o" : "0x";
    if (kind == 'X') {
      prefix = to_upper(prefix);
      digits = to_upper(digits);
    }
    pad(prefix, digits, true);
  }

  void real(char kind, const Value& value) {
    if (value.is_undefined()) fail_undefined(value);
    if (!value.is_number()) fail(Fault::Type, "must be real number, not " + type_name(value));
    const double number = value.real();
    const char style = static_cast<char>(kind | 0x20);
    std::string digits = float_digits(number, style, precision_ < 0 ? 6 : precision_, alternate_);
    if (kind != style) digits = to_upper(digits);
    pad(sign_of(std::signbit(number) && !std::isnan(number)), digits, std::isfinite(number));
  }

  std::string sign_of(bool negative) const {
    if (negative) return "-";
    return sign_ == '\0' ? "" : std::string(1, sign_);
  }

  void pad(const std::string& prefix, std::string_view body, bool numeric) {
    const int64_t missing = width_ - static_cast<int64_t>(utf8::count(prefix) + utf8::count(body));
    const bool zeros = numeric && zero_ && !left_;
    if (!left_ && !zeros) out_.repeat(" ", missing);
    out_.append(prefix);
    if (zeros) out_.repeat("0", missing);
    out_.append(body);
    if (left_) out_.repeat(" ", missing);
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& values_;
  TextBuilder out_;
  bool escaped_;
  size_t at_ = 0, next_ = 0;
  Value keyed_;
  bool has_key_ = false, left_ = false, zero_ = false, alternate_ = false;
  char sign_ = '\0';
  int width_ = 0, precision_ = -1;
};

}  // namespace

std::string percent_format(Runtime& runtime, std::string_view format, const Value& values,
                           bool escaped) {
  return PercentFormat(runtime, format, values, escaped).run();
}

}  // namespace mlxcel::text::jinja
