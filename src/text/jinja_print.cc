// str() and repr() as Python writes them.
#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_runtime.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

void append_sequence(Runtime& runtime, TextBuilder& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, out, items[i]);
  }
}

void append_hex(std::string& out, char kind, uint32_t code, int digits) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '\\';
  out += kind;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[code >> shift & 15U];
}

void append_scalar(Runtime& runtime, TextBuilder& out, const Value& value) {
  switch (value.type()) {
    case Type::None:
      out.append("None");
      break;
    case Type::Bool:
      out.append(value.integer() != 0 ? "True" : "False");
      break;
    case Type::Int:
      out.append(std::to_string(value.integer()));
      break;
    case Type::Float:
      out.append(float_repr(value.real()));
      break;
    default:
      out.append(value.object() == nullptr ? "" : value.object()->repr(runtime));
  }
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const std::string_view written = text.substr(e + (text[e + 1] == '+' ? 2 : 1));
  std::from_chars(written.data(), written.data() + written.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

std::string repr_string(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const bool both = single && text.find('"') != std::string_view::npos;
  const char quote = single && !both ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    const auto length = static_cast<size_t>(c.length);
    const char32_t code = c.code_point;
    if (code == static_cast<char32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code < 0x20 || code == 0x7F || (code >= 0x80 && !is_printable(code))) {
      if (code < 0x100) {
        append_hex(out, 'x', code, 2);
      } else {
        append_hex(out, code < 0x10000 ? 'u' : 'U', code, code < 0x10000 ? 4 : 8);
      }
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out + quote;
}

void append_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  const Runtime::Recursion recursion(runtime);
  runtime.heap().step();
  switch (value.type()) {
    case Type::Undefined:
      out.append("Undefined");
      break;
    case Type::String: {
      const Charge room(&runtime.heap(), 4 * value.text().size());
      if (value.is_markup()) {
        out.append("Markup(" + repr_string(value.text()) + ")");
      } else {
        out.append(repr_string(value.text()));
      }
      break;
    }
    case Type::List:
      out.append('[');
      append_sequence(runtime, out, value.items());
      out.append(']');
      break;
    case Type::Tuple:
      out.append('(');
      append_sequence(runtime, out, value.items());
      out.append(value.items().size() == 1 ? ",)" : ")");
      break;
    case Type::Dict: {
      out.append('{');
      bool first = true;
      for (const auto& [key, item] : value.as<DictObject>()->entries()) {
        if (!first) out.append(", ");
        first = false;
        append_repr(runtime, out, key);
        out.append(": ");
        append_repr(runtime, out, item);
      }
      out.append('}');
      break;
    }
    default:
      append_scalar(runtime, out, value);
  }
}

std::string to_repr(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_repr(runtime, out, value);
  return out.take();
}

void append_str(Runtime& runtime, TextBuilder& out, const Value& value) {
  if (value.is_string()) {
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(runtime, out, value);
  }
}

std::string to_str(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  append_str(runtime, out, value);
  return out.take();
}

Value soft_str(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.string(to_str(runtime, value));
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value escape(Runtime& runtime, const Value& value) {
  if (value.is_markup()) return value;
  const Charge room(&runtime.heap(), value.is_string() ? 5 * value.text().size() : 0);
  return runtime.markup(escape_html(to_str(runtime, value)));
}

}  // namespace mlxcel::text::jinja
