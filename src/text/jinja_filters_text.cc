// Filters on text.
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

Value text_method(Runtime& runtime, const Value& subject, std::string_view method, Args& args) {
  return find_string_method(method)(runtime, soft_str(runtime, subject), args);
}

Value upper(Runtime& r, const Value& v, Args& a) { return text_method(r, v, "upper", a); }
Value lower(Runtime& r, const Value& v, Args& a) { return text_method(r, v, "lower", a); }
Value capitalize_text(Runtime& r, const Value& v, Args& a) {
  return text_method(r, v, "capitalize", a);
}
Value string(Runtime& r, const Value& v, Args&) { return soft_str(r, v); }

Value trim(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("trim", args, {"chars"});
  Args strip;
  strip.positional.push_back(bound[0]);
  return text_method(runtime, subject, "strip", strip);
}

Value center(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("center", args, {"width"});
  Args pad;
  pad.positional.emplace_back(bound.integer(0, 80));
  return text_method(runtime, subject, "center", pad);
}

/// Upper-case after white space and ( { [ < -, lower-case elsewhere.
Value title(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("title", args, {});
  const Value text = soft_str(runtime, subject);
  TextBuilder out(runtime);
  std::string_view rest = text.text();
  const auto separates = [](char32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  while (!rest.empty()) {
    runtime.heap().step();
    const utf8::Decoded first = utf8::decode(rest);
    size_t end = static_cast<size_t>(first.length);
    const bool separator = separates(first.code_point);
    while (end < rest.size()) {
      const utf8::Decoded c = utf8::decode(rest.substr(end));
      if (separates(c.code_point) != separator) break;
      end += static_cast<size_t>(c.length);
    }
    const auto head = static_cast<size_t>(first.length);
    out.append(to_upper(rest.substr(0, head)));
    out.append(to_lower(rest.substr(head, end - head)));
    rest.remove_prefix(end);
  }
  return runtime.string(out.take());
}

Value replace(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const int64_t count = bound[2].is_none() ? -1 : bound.integer(2, -1);
  std::string old = to_str(runtime, bound[0]), replacement = to_str(runtime, bound[1]);
  if (!runtime.autoescape()) {
    return runtime.string(replace_text(runtime, to_str(runtime, subject), old, replacement, count));
  }
  Value text = soft_str(runtime, subject);
  if (bound[0].is_markup() || (bound[1].is_markup() && !text.is_markup())) {
    text = escape(runtime, text);
  }
  if (text.is_markup() && !bound[1].is_markup()) replacement = escape_html(replacement);
  std::string out = replace_text(runtime, text.text(), old, replacement, count);
  return make_string(&runtime.heap(), std::move(out), text.is_markup());
}

Value format(Runtime& runtime, const Value& subject, Args& args) {
  if (!args.positional.empty() && !args.keyword.empty()) {
    fail(Fault::Runtime, "can't handle positional and keyword arguments at the same time");
  }
  const Value text = soft_str(runtime, subject);
  if (args.keyword.empty()) {
    return runtime.string(percent_format(runtime, text.text(), runtime.tuple(args.positional)));
  }
  auto dict = std::make_shared<DictObject>(&runtime.heap());
  for (const auto& [key, value] : args.keyword) dict->set(runtime.string(key), value);
  return runtime.string(percent_format(runtime, text.text(), {Type::Dict, dict}));
}

Value indent(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  if (!subject.is_string()) binary(runtime, "+", subject, runtime.string("\n"));
  TextBuilder prefix(runtime);
  if (bound[0].is_string()) {
    prefix.append(bound[0].text());
  } else {
    prefix.repeat(" ", bound.integer(0, 4));
  }
  const bool markup = subject.is_markup();
  const std::string& indention = prefix.text();
  const std::string text = std::string(subject.text()) + "\n";
  const std::vector<std::string_view> lines = split_lines(runtime, text);
  const bool blank = bound.flag(2, false);
  TextBuilder out(runtime);
  if (bound.flag(1, false)) out.append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append('\n');
      if (blank || !lines[i].empty()) out.append(indention);
    }
    out.append(lines[i]);
  }
  return make_string(&runtime.heap(), out.take(), markup);
}

Value truncate(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t limit = bound.integer(0, 255);
  const std::string_view end = bound.text(2, "...");
  const int64_t leeway = bound[3].is_none() ? 5 : bound.integer(3, 5);
  const auto end_length = static_cast<int64_t>(utf8::count(end));
  if (limit < end_length) {
    fail(Fault::Value,
         "expected length >= " + std::to_string(end_length) + ", got " + std::to_string(limit));
  }
  if (leeway < 0) fail(Fault::Value, "expected leeway >= 0, got " + std::to_string(leeway));
  const int64_t count = length(runtime, subject);
  if (count - limit <= leeway) return subject;
  if (!subject.is_string()) {
    return get_slice(runtime, subject, Value::none(), Value(limit - end_length), Value::none());
  }
  std::string_view kept = subject.text();
  kept = kept.substr(0, byte_offset(kept, static_cast<size_t>(limit - end_length)));
  if (!bound.flag(1, false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  return make_string(&runtime.heap(), std::string(kept) + std::string(end), subject.is_markup());
}

Value wordcount(Runtime& runtime, const Value& subject, Args&) {
  const Value text = soft_str(runtime, subject);
  const std::string_view bytes = text.text();
  runtime.heap().touch(bytes.size());
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < bytes.size();) {
    const utf8::Decoded c = utf8::decode(bytes.substr(at));
    at += static_cast<size_t>(c.length);
    const bool word = is_word(c.code_point);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return words;
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", capitalize_text},
    {"center", center},
    {"format", format},
    {"indent", indent},
    {"lower", lower},
    {"replace", replace},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper},
    {"wordcount", wordcount},
    {"wordwrap", filter_wordwrap},
};

}  // namespace

std::span<const NamedFilter> text_filters() { return kFilters; }

}  // namespace mlxcel::text::jinja
