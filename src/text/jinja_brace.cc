// str.format(): replacement fields and their format specifications.
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_number_format.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', group = '\0', type = '\0';
  bool alternate = false, zero = false;
  int width = 0, precision = -1;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(Runtime& runtime, std::string_view text, const Value& value) {
  Spec spec;
  const auto number = [&] {
    int64_t n = 0;
    while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      n = std::min<int64_t>(n * 10 + (text[0] - '0'), INT32_MAX);
      text.remove_prefix(1);
    }
    return checked_width(runtime, n);
  };
  if (!text.empty()) {
    const auto first = static_cast<size_t>(utf8::decode(text).length);
    if (text.size() > first && is_align(text[first])) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      text.remove_prefix(first + 1);
    } else if (is_align(text[0])) {
      spec.align = text[0];
      text.remove_prefix(1);
    }
  }
  const auto accept = [&](std::string_view set, char& out) {
    if (text.empty() || set.find(text[0]) == std::string_view::npos) return false;
    out = text[0];
    text.remove_prefix(1);
    return true;
  };
  char ignored = '\0';
  accept("+- ", spec.sign);
  spec.alternate = accept("#", ignored);
  if (accept("0", ignored)) {
    spec.zero = true;
    if (spec.align == '\0') {
      spec.fill = "0";
      // Only numbers put the zeros between sign and digits.
      spec.align = value.is_number() ? '=' : '<';
    }
  }
  spec.width = number();
  accept(",_", spec.group);
  if (accept(".", ignored)) {
    if (text.empty() || text[0] < '0' || text[0] > '9')
      fail(Fault::Value, "Format specifier missing precision");
    spec.precision = number();
  }
  accept("bcdeEfFgGnosxX%", spec.type);
  if (!text.empty()) {
    fail(Fault::Value, "Invalid format specifier for object of type '" + type_name(value) + "'");
  }
  return spec;
}

std::string pad(Runtime& runtime, const Spec& spec, std::string_view prefix, std::string_view body,
                char default_align) {
  const char align = spec.align == '\0' ? default_align : spec.align;
  const int64_t missing =
      spec.width - static_cast<int64_t>(utf8::count(prefix) + utf8::count(body));
  const int64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  TextBuilder out(runtime);
  out.repeat(spec.fill, before);
  out.append(prefix);
  if (align == '=') out.repeat(spec.fill, missing);
  out.append(body);
  if (align != '=') out.repeat(spec.fill, missing - std::max<int64_t>(0, before));
  return out.take();
}

std::string sign_text(const Spec& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

/// Zero padding counts the separators it brings along.
std::string grouped(const Spec& spec, std::string digits, size_t group, size_t prefix) {
  if (spec.group == '\0') return digits;
  std::string out = group_digits(digits, spec.group, group);
  if (spec.fill != "0" || spec.align != '=') return out;
  while (out.size() + prefix < static_cast<size_t>(spec.width)) {
    digits.insert(0, 1, '0');
    std::string next = group_digits(digits, spec.group, group);
    out = std::move(next);
  }
  return out;
}

[[noreturn]] void unknown_code(const Spec& spec, const Value& value) {
  fail(Fault::Value, std::string("Unknown format code '") + spec.type + "' for object of type '" +
                         type_name(value) + "'");
}

std::string format_float(Runtime& runtime, const Value& value, const Spec& spec) {
  const double number = spec.type == '%' ? value.real() * 100 : value.real();
  const char style = spec.type == '%' || (spec.type | 0x20) == 'f' ? 'f'
                     : (spec.type | 0x20) == 'e'                   ? 'e'
                                                                   : 'g';
  std::string digits;
  if (spec.type == '\0' && spec.precision < 0) {
    digits = float_repr(std::abs(number));
  } else if (spec.type == '\0') {
    // Like g, but one digit always follows the point and the exponent comes one place earlier.
    const int precision = std::max(1, spec.precision);
    digits = float_digits(number, 'g', precision, spec.alternate);
    const std::string scientific = float_digits(number, 'e', precision - 1, false);
    const size_t e = scientific.find('e');
    if (e != std::string::npos && std::stoi(scientific.substr(e + 1)) == precision - 1) {
      std::string mantissa = scientific.substr(0, e);
      if (mantissa.find('.') != std::string::npos) {
        mantissa.erase(mantissa.find_last_not_of('0') + 1);
        if (mantissa.back() == '.') mantissa.pop_back();
      }
      digits = mantissa + scientific.substr(e);
    } else if (std::isfinite(number) && digits.find_first_of(".e") == std::string::npos) {
      digits += ".0";
    }
  } else {
    digits = float_digits(number, style, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') digits = to_upper(digits);
  if (spec.type == '%') digits += '%';
  const std::string sign = sign_text(spec, std::signbit(number) && !std::isnan(number));
  return pad(runtime, spec, sign, grouped(spec, digits, 3, sign.size()), '>');
}

std::string format_integer(Runtime& runtime, const Value& value, const Spec& spec) {
  if (spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
    return format_float(runtime, value, spec);
  }
  if (spec.precision >= 0) fail(Fault::Value, "Precision not allowed in integer format specifier");
  if (spec.type == 's') unknown_code(spec, value);
  if (spec.type == 'c') {
    if (value.integer() < 0 || value.integer() > 0x10FFFF) {
      fail(Fault::Overflow, "%c arg not in range(0x110000)");
    }
    std::string text;
    utf8::append(text, static_cast<char32_t>(value.integer()));
    return pad(runtime, spec, "", text, '>');
  }
  const int base = spec.type == 'b'            ? 2
                   : spec.type == 'o'          ? 8
                   : (spec.type | 0x20) == 'x' ? 16
                                               : 10;
  std::string digits = digits_of(magnitude_of(value.integer()), base);
  std::string prefix = sign_text(spec, value.integer() < 0);
  if (spec.alternate && base != 10) prefix += std::string("0") + spec.type;
  if (spec.type == 'X') digits = to_upper(digits);
  digits = grouped(spec, std::move(digits), base == 10 ? 3 : 4, prefix.size());
  return pad(runtime, spec, prefix, digits, '>');
}

std::string format_text(Runtime& runtime, const Value& value, const Spec& spec) {
  if (spec.type != '\0' && spec.type != 's') unknown_code(spec, value);
  if (spec.align == '=') {
    fail(Fault::Value, "'=' alignment not allowed in string format specifier");
  }
  if (spec.sign != '-') fail(Fault::Value, "Sign not allowed in string format specifier");
  std::string_view text = value.text();
  if (spec.precision >= 0)
    text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  return pad(runtime, spec, "", text, '<');
}

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Args& args) : runtime_(runtime), args_(args) {}

  std::string run(std::string_view format, int depth) {
    if (depth < 0) fail(Fault::Value, "Max string recursion exceeded");
    TextBuilder out(runtime_);
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        const size_t next = std::min(format.find_first_of("{}", at), format.size());
        out.append(format.substr(at, next - at));
        at = next;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        out.append(c);
        at += 2;
      } else if (c == '}') {
        fail(Fault::Value, "Single '}' encountered in format string");
      } else {
        const size_t end = field_end(format, at + 1);
        out.append(field(format.substr(at + 1, end - at - 1), depth));
        at = end + 1;
      }
    }
    return out.take();
  }

 private:
  static size_t field_end(std::string_view format, size_t at) {
    int open = 1;
    for (; at < format.size(); ++at) {
      open += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    fail(Fault::Value, "expected '}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    runtime_.heap().step();
    size_t name_end = 0;
    bool bracket = false;
    while (name_end < text.size() &&
           (bracket || (text[name_end] != ':' && text[name_end] != '!'))) {
      bracket = text[name_end] == '[' || (bracket && text[name_end] != ']');
      ++name_end;
    }
    Value value = look_up(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        fail(Fault::Value, "expected ':' after conversion specifier");
      }
      const char conversion = rest[1];
      if (conversion != 's' && conversion != 'r' && conversion != 'a') {
        fail(Fault::Value, std::string("Unknown conversion specifier ") + conversion);
      }
      value =
          runtime_.string(conversion == 's' ? to_str(runtime_, value) : to_repr(runtime_, value));
      rest.remove_prefix(2);
    }
    const std::string spec = rest.empty() ? std::string() : run(rest.substr(1), depth - 1);
    return format_value(runtime_, value, spec);
  }

  Value look_up(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    // Only a bare number or nothing at all takes part in the numbering of fields.
    const bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (manual_ && name.empty()) {
      fail(Fault::Value,
           "cannot switch from manual field specification to automatic field numbering");
    }
    if (next_ > 0 && digits && !name.empty()) {
      fail(Fault::Value,
           "cannot switch from automatic field numbering to manual field specification");
    }
    manual_ |= digits && !name.empty();
    Value value = name.empty() ? positional(next_++) : first_value(name.substr(0, end));
    std::string_view rest = name.substr(end);
    while (!rest.empty()) {
      runtime_.heap().step();
      const bool item = rest[0] == '[';
      const size_t stop =
          item ? rest.find(']') : std::min(rest.find_first_of(".[", 1), rest.size());
      if (stop == std::string_view::npos) fail(Fault::Value, "Missing ']' in format string");
      const std::string_view part = rest.substr(1, stop - 1);
      if (part.empty()) fail(Fault::Value, "Empty attribute in format string");
      int64_t index = 0;
      const bool number = item && part.find_first_not_of("0123456789") == std::string_view::npos &&
                          parse_python_int(part, 10, index);
      const Value key = number ? Value(index) : runtime_.string(std::string(part));
      value = item ? get_item(runtime_, value, key) : get_attribute(runtime_, value, key);
      rest.remove_prefix(item ? stop + 1 : stop);
    }
    return value;
  }

  Value positional(int64_t index) const {
    if (index < 0 || static_cast<size_t>(index) >= args_.positional.size()) {
      fail(Fault::Lookup, "Replacement index " + std::to_string(index) +
                              " out of range for positional args tuple");
    }
    return args_.positional[static_cast<size_t>(index)];
  }

  Value first_value(std::string_view name) const {
    int64_t index = 0;
    const bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!name.empty() && digits && parse_python_int(name, 10, index)) return positional(index);
    for (const auto& [key, value] : args_.keyword) {
      if (key == name) return value;
    }
    fail(Fault::Lookup, repr_string(name));
  }

  Runtime& runtime_;
  const Args& args_;
  int64_t next_ = 0;
  bool manual_ = false;
};

}  // namespace

std::string format_value(Runtime& runtime, const Value& value, std::string_view spec) {
  if (spec.empty()) return to_str(runtime, value);
  switch (value.type()) {
    case Type::Bool:
    case Type::Int:
      return format_integer(runtime, value, parse_spec(runtime, spec, value));
    case Type::Float: {
      const Spec parsed = parse_spec(runtime, spec, value);
      if (parsed.type != '\0' &&
          std::string_view("bcdosxX").find(parsed.type) != std::string_view::npos) {
        unknown_code(parsed, value);
      }
      return format_float(runtime, value, parsed);
    }
    case Type::String:
      return format_text(runtime, value, parse_spec(runtime, spec, value));
    default:
      fail(Fault::Type, "unsupported format string passed to " + type_name(value) + ".__format__");
  }
}

std::string brace_format(Runtime& runtime, std::string_view format, const Args& args) {
  return BraceFormat(runtime, args).run(format, 2);
}

}  // namespace mlxcel::text::jinja
