// Methods of str that change, pad or classify text.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

using Map = std::string (*)(std::string_view);

template <Map map>
Value mapped(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("str method", args, {});
  // Case mappings give at most three characters for one.
  const Charge room(&runtime.heap(), 12 * self.text().size());
  return runtime.string(map(self.text()));
}

using Class = bool (*)(char32_t);

template <Class member>
Value all_are(Runtime& runtime, const Value& self, Args&) {
  runtime.heap().touch(self.text().size());
  const std::string_view text = self.text();
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    if (!member(c.code_point)) return false;
    at += static_cast<size_t>(c.length);
  }
  return !text.empty();
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

Value is_ascii(Runtime&, const Value& self, Args&) {
  return std::all_of(self.text().begin(), self.text().end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Value is_printable_text(Runtime& runtime, const Value& self, Args& args) {
  return self.text().empty() ? Value(true) : all_are<is_printable>(runtime, self, args);
}

/// True when there is a cased character and no cased one of the other case.
template <bool lower>
Value is_case(Runtime& runtime, const Value& self, Args&) {
  runtime.heap().touch(self.text().size());
  const std::string_view text = self.text();
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    if (is_title(c.code_point) || (lower ? is_upper(c.code_point) : is_lower(c.code_point))) {
      return false;
    }
    cased |= lower ? is_lower(c.code_point) : is_upper(c.code_point);
    at += static_cast<size_t>(c.length);
  }
  return cased;
}

Value is_title_text(Runtime& runtime, const Value& self, Args&) {
  runtime.heap().touch(self.text().size());
  const std::string_view text = self.text();
  bool cased = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    at += static_cast<size_t>(c.length);
    if (is_upper(c.code_point) || is_title(c.code_point)) {
      if (inside) return false;
      inside = cased = true;
    } else if (is_lower(c.code_point)) {
      if (!inside) return false;
      cased = true;
    } else {
      inside = false;
    }
  }
  return cased;
}

Value is_identifier(Runtime&, const Value& self, Args&) {
  const std::string_view text = self.text();
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    if (!(at == 0 ? is_identifier_start(c.code_point) : is_word(c.code_point))) return false;
    at += static_cast<size_t>(c.length);
  }
  return !text.empty();
}

template <bool left, bool right>
Value strip(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("strip", args, {"chars"});
  std::string_view text = self.text();
  const bool spaces = bound[0].is_none();
  if (!spaces && !bound[0].is_string()) {
    fail(Fault::Type, "strip arg must be None or str");
  }
  const std::string_view chars = spaces ? std::string_view() : bound[0].text();
  runtime.heap().touch(text.size() + chars.size());
  if (left) text = spaces ? strip_left(text) : strip_left(text, chars);
  if (right) text = spaces ? strip_right(text) : strip_right(text, chars);
  return make_string(&runtime.heap(), std::string(text), self.is_markup());
}

enum class Side : uint8_t { Left, Right, Both };

template <Side side>
Value pad(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("padding", args, {"width", "fillchar"}, 1);
  const std::string_view fill = bound.text(1, " ");
  if (utf8::count(fill) != 1) {
    fail(Fault::Type, "The fill character must be exactly one character long");
  }
  const int64_t width = bound.integer(0, 0), count = length(runtime, self);
  const int64_t missing = std::max<int64_t>(0, width - count);
  // Python puts the odd one of a centred text on the left when the width is odd.
  const int64_t before = side == Side::Right  ? missing
                         : side == Side::Left ? 0
                                              : missing / 2 + (missing & width & 1);
  TextBuilder out(runtime);
  out.repeat(fill, before);
  out.append(self.text());
  out.repeat(fill, missing - before);
  return runtime.string(out.take());
}

Value zfill(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("zfill", args, {"width"}, 1);
  std::string_view text = self.text();
  TextBuilder out(runtime);
  const int64_t missing = bound.integer(0, 0) - length(runtime, self);
  if (missing > 0 && !text.empty() && (text[0] == '-' || text[0] == '+')) {
    out.append(text[0]);
    text.remove_prefix(1);
  }
  out.repeat("0", missing);
  out.append(text);
  return runtime.string(out.take());
}

Value expand_tabs(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  const int64_t size = bound.integer(0, 8);
  TextBuilder out(runtime);
  int64_t column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.repeat(" ", spaces);
      column += spaces;
      continue;
    }
    out.append(c);
    if (c == '\n' || c == '\r') {
      column = 0;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return runtime.string(out.take());
}

Value join(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("join", args, {"iterable"}, 1);
  TextBuilder out(runtime);
  int64_t i = 0;
  for (const Value& item : iterate(runtime, bound[0])) {
    if (!item.is_string()) {
      fail(Fault::Type, "sequence item " + std::to_string(i) + ": expected str instance, " +
                            type_name(item) + " found");
    }
    if (i++ > 0) out.append(self.text());
    out.append(item.text());
  }
  return runtime.string(out.take());
}

Value remove_prefix(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("removeprefix", args, {"prefix"}, 1);
  std::string_view text = self.text();
  const std::string_view prefix = bound.text(0, "");
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return runtime.string(std::string(text));
}

Value remove_suffix(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("removesuffix", args, {"suffix"}, 1);
  std::string_view text = self.text();
  const std::string_view suffix = bound.text(0, "");
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return runtime.string(std::string(text));
}

Value format(Runtime& runtime, const Value& self, Args& args) {
  return runtime.string(brace_format(runtime, self.text(), args));
}

Value format_map(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("format_map", args, {"mapping"}, 1);
  Args fields;
  if (const auto* dict = bound[0].as<DictObject>()) {
    for (const auto& [key, value] : dict->entries()) {
      if (key.is_string()) fields.keyword.emplace_back(std::string(key.text()), value);
    }
  }
  return runtime.string(brace_format(runtime, self.text(), fields));
}

[[noreturn]] Value refused(Runtime&, const Value&, Args&) {
  fail(Fault::Unsupported, "str.encode, maketrans and translate are not available to a template");
}

constexpr NamedMethod kMethods[] = {
    {"capitalize", mapped<capitalize>}, {"casefold", mapped<case_fold>},
    {"center", pad<Side::Both>},        {"encode", refused},
    {"expandtabs", expand_tabs},        {"format", format},
    {"format_map", format_map},         {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},     {"isascii", is_ascii},
    {"isdecimal", all_are<is_decimal>}, {"isdigit", all_are<is_digit>},
    {"isidentifier", is_identifier},    {"islower", is_case<true>},
    {"isnumeric", all_are<is_numeric>}, {"isprintable", is_printable_text},
    {"isspace", all_are<is_space>},     {"istitle", is_title_text},
    {"isupper", is_case<false>},        {"join", join},
    {"ljust", pad<Side::Left>},         {"lower", mapped<to_lower>},
    {"lstrip", strip<true, false>},     {"maketrans", refused},
    {"removeprefix", remove_prefix},    {"removesuffix", remove_suffix},
    {"rjust", pad<Side::Right>},        {"rstrip", strip<false, true>},
    {"strip", strip<true, true>},       {"swapcase", mapped<swap_case>},
    {"title", mapped<to_title>},        {"translate", refused},
    {"upper", mapped<to_upper>},        {"zfill", zfill},
};

}  // namespace

MethodFn find_string_method(std::string_view name) {
  for (const NamedMethod& method : kMethods) {
    if (method.name == name) return method.function;
  }
  return find_search_method(name);
}

}  // namespace mlxcel::text::jinja
