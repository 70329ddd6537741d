#include "text/jinja_literals.h"

#include <charconv>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

bool is_digit(char c, int base) {
  if (base <= 10) return c >= '0' && c < '0' + base;
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Digits with single underscores between them.
size_t digits(std::string_view text, int base = 10) {
  size_t n = 0;
  while (n < text.size()) {
    if (is_digit(text[n], base)) {
      ++n;
    } else if (n > 0 && text[n] == '_' && n + 1 < text.size() && is_digit(text[n + 1], base)) {
      n += 2;
    } else {
      break;
    }
  }
  return n;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  switch (text[1] | 0x20) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 10;
  }
}

/// Reads up to `count` digits of `base`; returns how many there were.
size_t read_code(std::string_view text, size_t count, int base, uint32_t& code) {
  size_t n = 0;
  code = 0;
  while (n < count && n < text.size() && is_digit(text[n], base)) {
    const char c = text[n++];
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
  }
  return n;
}

/// An escape whose value is a number: \x, \u, \U or octal. Returns the bytes consumed, 0 = broken.
size_t numeric_escape(std::string_view text, std::string& value) {
  uint32_t code = 0;
  const char c = text[0];
  size_t used = 0;
  if (c >= '0' && c <= '7') {
    used = read_code(text, 3, 8, code);
  } else {
    const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    if (read_code(text.substr(1), count, 16, code) != count || code > 0x10FFFF) return 0;
    used = count + 1;
  }
  // A lone surrogate has no UTF-8 form.
  utf8::append(value, code >= 0xD800 && code < 0xE000 ? utf8::kReplacement : code);
  return used;
}

}  // namespace

size_t name_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const utf8::Decoded c = utf8::decode(text.substr(n));
    if (!c.valid || !(n == 0 ? is_identifier_start(c.code_point) : is_word(c.code_point))) break;
    n += static_cast<size_t>(c.length);
  }
  return n;
}

size_t float_length(std::string_view text) {
  size_t n = digits(text);
  if (n == 0) return 0;
  bool real = false;
  if (n < text.size() && text[n] == '.') {
    const size_t fraction = digits(text.substr(n + 1));
    if (fraction > 0) {
      n += 1 + fraction;
      real = true;
    }
  }
  if (n < text.size() && (text[n] | 0x20) == 'e') {
    const size_t sign = n + 1 < text.size() && (text[n + 1] == '+' || text[n + 1] == '-') ? 1 : 0;
    const size_t exponent = n + 1 + sign < text.size() ? digits(text.substr(n + 1 + sign)) : 0;
    if (exponent > 0) {
      n += 1 + sign + exponent;
      real = true;
    }
  }
  return real ? n : 0;
}

size_t integer_length(std::string_view text) {
  const int base = prefix_base(text);
  if (base != 10) {
    const size_t start = text.size() > 2 && text[2] == '_' ? 3 : 2;
    const size_t n = digits(text.substr(start), base);
    if (n > 0) return start + n;
    return 1;
  }
  if (text[0] != '0') return digits(text);
  size_t n = 1;  // a zero may only be followed by zeros
  while (n < text.size() &&
         (text[n] == '0' || (text[n] == '_' && text.substr(n + 1).starts_with('0'))))
    ++n;
  return n;
}

double parse_float_literal(std::string_view literal) {
  const std::string text = without_underscores(literal);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Out of range: strtod gives infinity or zero, as Python does.
  return error == std::errc() ? value : std::strtod(text.c_str(), nullptr);
}

bool parse_integer_literal(std::string_view literal, int64_t& value) {
  const int base = prefix_base(literal);
  const std::string text = without_underscores(literal.substr(base == 10 ? 0 : 2));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool unescape(std::string_view body, std::string& value, std::string& problem) {
  static constexpr std::string_view kNames = "abfnrtv\\'\"", kValues = "\a\b\f\n\r\t\v\\'\"";
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 >= body.size()) {
      value += body[i];
      continue;
    }
    const char c = body[++i];
    const size_t simple = kNames.find(c);
    if (simple != std::string_view::npos) {
      value += kValues[simple];
    } else if (c == '\n') {
      continue;  // a line continuation
    } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
      const size_t used = numeric_escape(body.substr(i), value);
      if (used == 0) {
        problem = std::string("truncated or illegal \\") + c + " escape in a string";
        return false;
      }
      i += used - 1;
    } else if (c == 'N') {
      problem = "named characters (\\N{...}) are not supported in a string; write the character";
      return false;
    } else {
      value += '\\';
      value += c;
    }
  }
  return true;
}

}  // namespace mlxcel::text::jinja
