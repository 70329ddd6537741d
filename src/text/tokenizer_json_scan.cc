#include "text/tokenizer_json_scan.h"

#include <fmt/core.h>

#include <charconv>
#include <cstring>

#include "base/utf8.h"

namespace mlxcel::text {
namespace {

constexpr int kMaxDepth = 128;

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

void JsonCursor::fail(std::string_view what) const {
  size_t line = 1, begin = 0;
  for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  }
  throw Error(Code::InvalidArgument,
              fmt::format("{} at line {}, column {}", what, line, at_ - begin + 1));
}

char JsonCursor::peek() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonCursor::expect(char c) {
  if (peek() != c || at_ >= text_.size()) fail(fmt::format("'{}' is expected", c));
  ++at_;
}

bool JsonCursor::accept(char c) {
  if (peek() != c || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

std::string_view JsonCursor::string(std::string& buffer) {
  expect('"');
  const size_t begin = at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      const std::string_view result = text_.substr(begin, at_ - begin);
      ++at_;
      return result;
    }
    if (c == '\\') return unescape(begin, buffer);
    if (static_cast<uint8_t>(c) < 0x20) fail("a control character is inside a string");
  }
  fail("a string does not end");
}

uint32_t JsonCursor::hex4() {
  uint32_t value = 0;
  if (at_ + 4 > text_.size()) fail("\\u needs four hexadecimal digits");
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
  if (error != std::errc() || end != begin + 4) fail("\\u needs four hexadecimal digits");
  at_ += 4;
  return value;
}

std::string_view JsonCursor::unescape(size_t begin, std::string& buffer) {
  buffer.assign(text_.substr(begin, at_ - begin));
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return buffer;
    if (static_cast<uint8_t>(c) < 0x20) fail("a control character is inside a string");
    if (c != '\\') {
      buffer += c;
      continue;
    }
    const char e = at_ < text_.size() ? text_[at_++] : '\0';
    switch (e) {
      case '"':
      case '\\':
      case '/':
        buffer += e;
        break;
      case 'b':
        buffer += '\b';
        break;
      case 'f':
        buffer += '\f';
        break;
      case 'n':
        buffer += '\n';
        break;
      case 'r':
        buffer += '\r';
        break;
      case 't':
        buffer += '\t';
        break;
      case 'u': {
        uint32_t unit = hex4();
        if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
          const size_t behind_high = at_;
          at_ += 2;
          const uint32_t low = hex4();
          if (low >= 0xDC00 && low < 0xE000) {
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
          } else {
            at_ = behind_high;
          }
        }
        if (unit >= 0xD800 && unit < 0xE000) fail("a surrogate stands alone in a string");
        utf8::append(buffer, unit);
        break;
      }
      default:
        fail("an unknown escape is inside a string");
    }
  }
  fail("a string does not end");
}

std::string_view JsonCursor::number_text() {
  peek();
  const size_t begin = at_;
  while (at_ < text_.size() && is_number_char(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

int64_t JsonCursor::integer() {
  const std::string_view number = number_text();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc() || end != number.data() + number.size()) {
    fail("an integer is expected");
  }
  return value;
}

double JsonCursor::real() {
  const std::string_view number = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || error != std::errc() || end != number.data() + number.size()) {
    fail("a number is expected");
  }
  return value;
}

void JsonCursor::skip_string() {
  ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return;
    }
    at_ += c == '\\' ? 2 : 1;
  }
  fail("a string does not end");
}

std::string_view JsonCursor::skip_value() {
  peek();
  const size_t begin = at_;
  char open[kMaxDepth];
  int depth = 0;
  do {
    const char c = peek();
    if (c == '"') {
      skip_string();
    } else if (c == '{' || c == '[') {
      if (depth == kMaxDepth) fail("the nesting is too deep");
      open[depth++] = c == '{' ? '}' : ']';
      ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0 || open[depth - 1] != c) fail("a bracket does not match");
      --depth;
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) fail("a value is expected");
      ++at_;
    } else {
      const size_t word = at_;
      while (at_ < text_.size() &&
             (is_number_char(text_[at_]) || (text_[at_] >= 'a' && text_[at_] <= 'z'))) {
        ++at_;
      }
      if (at_ == word) fail("a value is expected");
    }
  } while (depth > 0);
  return text_.substr(begin, at_ - begin);
}

void JsonCursor::finish() {
  if (peek() != '\0' || at_ < text_.size()) fail("text follows the end of the document");
}

}  // namespace mlxcel::text
