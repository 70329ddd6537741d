// Filters that escape, quote or serialize.
#include <array>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

Value escape_value(Runtime& runtime, const Value& subject, Args&) {
  return escape(runtime, subject);
}

Value force_escape(Runtime& runtime, const Value& subject, Args&) {
  const std::string text = to_str(runtime, subject);
  const Charge room(&runtime.heap(), 5 * text.size());
  return runtime.markup(escape_html(text));
}

Value safe(Runtime& runtime, const Value& subject, Args&) {
  return runtime.markup(to_str(runtime, subject));
}

void append_quoted(TextBuilder& out, std::string_view text, bool query) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out.append(c);
    } else if (c == ' ' && query) {
      out.append('+');
    } else {
      out.append('%');
      out.append(kHex[byte >> 4]);
      out.append(kHex[byte & 15]);
    }
  }
}

Value urlencode(Runtime& runtime, const Value& subject, Args&) {
  TextBuilder out(runtime);
  if (subject.is_string() || !is_iterable(subject)) {
    append_quoted(out, to_str(runtime, subject), false);
    return runtime.string(out.take());
  }
  std::vector<Value> pairs;
  if (const auto* dict = subject.as<DictObject>()) {
    for (const auto& [key, value] : dict->entries()) pairs.push_back(runtime.tuple({key, value}));
  } else {
    pairs = iterate(runtime, subject);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::vector<Value> pair = iterate(runtime, pairs[i]);
    if (pair.size() != 2) {
      fail(Fault::Value, "urlencode needs pairs, got " + std::to_string(pair.size()) + " values");
    }
    if (i > 0) out.append('&');
    append_quoted(out, to_str(runtime, pair[0]), true);
    out.append('=');
    append_quoted(out, to_str(runtime, pair[1]), true);
  }
  return runtime.string(out.take());
}

Value xmlattr(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("xmlattr", args, {"autospace"});
  if (subject.is_undefined()) fail_undefined(subject);
  const auto* dict = subject.as<DictObject>();
  if (dict == nullptr) {
    fail(Fault::Type, "'" + type_name(subject) + "' object has no attribute 'items'");
  }
  TextBuilder out(runtime);
  for (const auto& [key, value] : dict->entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) fail(Fault::Type, "expected string or bytes-like object");
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      fail(Fault::Value, "Invalid character in attribute name: " + repr_string(key.text()));
    }
    if (!out.text().empty() || bound.flag(0, true)) out.append(' ');
    append_str(runtime, out, escape(runtime, key));
    out.append("=\"");
    append_str(runtime, out, escape(runtime, value));
    out.append('"');
  }
  return make_string(&runtime.heap(), out.take(), runtime.autoescape());
}

/// Drops <!-- comments --> and <tags>, joins words with single spaces, resolves entities.
Value striptags(Runtime& runtime, const Value& subject, Args&) {
  std::string text = to_str(runtime, subject);
  runtime.heap().touch(4 * text.size());
  const auto drop = [&](std::string_view open, std::string_view close) {
    std::string out;
    size_t begin = 0;
    for (size_t at = find_text(text, open); at != std::string::npos;
         at = find_text(text, open, begin)) {
      const size_t end = find_text(text, close, at);
      if (end == std::string::npos) break;
      out += text.substr(begin, at - begin);
      begin = end + close.size();
    }
    text = out + text.substr(begin);
  };
  drop("<!--", "-->");
  drop("<", ">");
  TextBuilder out(runtime);
  std::string_view rest = strip_left(text);
  while (!rest.empty()) {
    size_t end = 0;
    while (end < rest.size()) {
      const utf8::Decoded c = utf8::decode(rest.substr(end));
      if (is_space(c.code_point)) break;
      end += static_cast<size_t>(c.length);
    }
    if (!out.text().empty()) out.append(' ');
    out.append(rest.substr(0, end));
    rest = strip_left(rest.substr(end));
  }
  std::string plain = out.take();
  static constexpr std::array<std::array<std::string_view, 2>, 8> kEntities = {
      {{"&lt;", "<"},
       {"&gt;", ">"},
       {"&quot;", "\""},
       {"&#34;", "\""},
       {"&#39;", "'"},
       {"&#x27;", "'"},
       {"&nbsp;", "\u00a0"},
       {"&amp;", "&"}}};
  for (const auto& [entity, character] : kEntities) {
    plain = replace_text(runtime, plain, entity, character, -1);
  }
  return runtime.string(std::move(plain));
}

constexpr NamedFilter kFilters[] = {
    {"e", escape_value},       {"escape", escape_value}, {"forceescape", force_escape},
    {"pprint", filter_pprint}, {"safe", safe},           {"striptags", striptags},
    {"tojson", filter_tojson}, {"urlencode", urlencode}, {"urlize", filter_urlize},
    {"xmlattr", xmlattr},
};

}  // namespace

std::span<const NamedFilter> html_filters() { return kFilters; }

}  // namespace mlxcel::text::jinja
