#include "text/jinja_str_search.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

/// The bytes of code points [start, stop) as str.find and its like take them, and where they begin.
struct Window {
  std::string_view text;
  size_t offset = 0;
  bool valid = true;  // false when start lies behind the end
};

Window window(Runtime& runtime, const Value& self, const Bound& bound, size_t first) {
  const std::string_view all = self.text();
  runtime.heap().touch(all.size());
  if (!bound.given(first) && !bound.given(first + 1)) return {all, 0, true};
  const int64_t count = length(runtime, self);
  const auto clip = [&](size_t i, int64_t fallback) {
    int64_t at = bound.given(i) && !bound[i].is_none() ? bound.integer(i, fallback) : fallback;
    if (at < 0) at = at < -count ? 0 : at + count;
    return at;
  };
  const int64_t start = clip(first, 0), stop = std::min(clip(first + 1, count), count);
  if (start > count || start > stop) return {{}, 0, false};
  const size_t begin = byte_offset(all, static_cast<size_t>(start));
  const size_t bytes = byte_offset(all.substr(begin), static_cast<size_t>(stop - start));
  return {all.substr(begin, bytes), begin, true};
}

size_t rfind_text(Runtime& runtime, std::string_view text, std::string_view needle) {
  size_t best = kNone;
  for (size_t at = find_text(text, needle); at != kNone; at = find_text(text, needle, at + 1)) {
    runtime.heap().touch(needle.size());
    best = at;
    if (needle.empty()) return text.size();
  }
  return best;
}

template <bool last>
int64_t search(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("find", args, {"sub", "start", "end"}, 1);
  const Window in = window(runtime, self, bound, 1);
  if (!in.valid) return -1;
  const std::string_view needle = bound.text(0, "");
  const size_t at = last ? rfind_text(runtime, in.text, needle) : find_text(in.text, needle);
  if (at == kNone) return -1;
  return static_cast<int64_t>(utf8::count(self.text().substr(0, in.offset + at)));
}

template <bool last>
Value find(Runtime& runtime, const Value& self, Args& args) {
  return search<last>(runtime, self, args);
}

template <bool last>
Value index(Runtime& runtime, const Value& self, Args& args) {
  const int64_t at = search<last>(runtime, self, args);
  if (at < 0) fail(Fault::Value, "substring not found");
  return at;
}

Value count(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const Window in = window(runtime, self, bound, 1);
  if (!in.valid) return 0;
  const std::string_view needle = bound.text(0, "");
  if (needle.empty()) return static_cast<int64_t>(utf8::count(in.text)) + 1;
  int64_t n = 0;
  for (size_t at = find_text(in.text, needle); at != kNone;
       at = find_text(in.text, needle, at + needle.size())) {
    ++n;
  }
  return n;
}

template <bool end>
Value affix(Runtime& runtime, const Value& self, Args& args) {
  const char* name = end ? "endswith" : "startswith";
  const Bound bound(name, args, {"prefix", "start", "end"}, 1);
  const Window in = window(runtime, self, bound, 1);
  std::vector<Value> options = {bound[0]};
  if (bound[0].is(Type::Tuple)) options = bound[0].items();
  for (const Value& option : options) {
    if (!option.is_string()) {
      fail(Fault::Type, std::string(name) + " first arg must be str or a tuple of str, not " +
                            type_name(option));
    }
    const std::string_view text = option.text();
    if (in.valid && (end ? in.text.ends_with(text) : in.text.starts_with(text))) return true;
  }
  return false;
}

Value replace(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  return runtime.string(replace_text(runtime, self.text(), bound.text(0, ""), bound.text(1, ""),
                                     bound.integer(2, -1)));
}

class Splitter {
 public:
  Splitter(Runtime& runtime, const Value& self)
      : runtime_(runtime), out_(runtime), text_(self.text()) {
    runtime.heap().touch(text_.size());
  }

  void by_separator(std::string_view separator, int64_t limit, bool from_right) {
    if (separator.empty()) fail(Fault::Value, "empty separator");
    std::vector<size_t> cuts;
    if (from_right) {
      right_cuts(separator, limit, cuts);
    } else {
      for (size_t at = find_text(text_, separator);
           at != kNone && (limit < 0 || static_cast<int64_t>(cuts.size()) < limit);
           at = find_text(text_, separator, at + separator.size())) {
        runtime_.heap().step();
        cuts.push_back(at);
      }
    }
    size_t begin = 0;
    for (const size_t cut : cuts) {
      add(text_.substr(begin, cut - begin));
      begin = cut + separator.size();
    }
    add(text_.substr(begin));
  }

  void by_space(int64_t limit, bool from_right) {
    std::vector<std::string_view> parts;
    std::string_view rest = from_right ? strip_right(text_) : strip_left(text_);
    while (!rest.empty()) {
      runtime_.heap().step();
      if (limit >= 0 && static_cast<int64_t>(parts.size()) >= limit) {
        parts.push_back(rest);
        break;
      }
      const std::string_view word = from_right ? last_word(rest) : first_word(rest);
      parts.push_back(word);
      rest = from_right ? strip_right(rest.substr(0, rest.size() - word.size()))
                        : strip_left(rest.substr(word.size()));
    }
    if (from_right) std::reverse(parts.begin(), parts.end());
    for (const std::string_view part : parts) add(part);
  }

  Value result() { return out_.list(); }

 private:
  void add(std::string_view part) { out_.push(runtime_.string(std::string(part))); }

  void right_cuts(std::string_view separator, int64_t limit, std::vector<size_t>& cuts) const {
    // Occurrences are taken from the right end without overlap.
    size_t end = text_.size();
    while (end >= separator.size() && (limit < 0 || static_cast<int64_t>(cuts.size()) < limit)) {
      size_t at = end - separator.size();
      while (at > 0 && text_.compare(at, separator.size(), separator) != 0) {
        runtime_.heap().touch(separator.size());
        --at;
      }
      if (text_.compare(at, separator.size(), separator) != 0) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  }

  static std::string_view first_word(std::string_view text) {
    size_t end = 0;
    while (end < text.size()) {
      const utf8::Decoded c = utf8::decode(text.substr(end));
      if (is_space(c.code_point)) break;
      end += static_cast<size_t>(c.length);
    }
    return text.substr(0, end);
  }

  static std::string_view last_word(std::string_view text) {
    size_t begin = 0;
    for (size_t at = text.size(); at > 0;) {
      size_t start = at - 1;
      while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
      if (is_space(utf8::decode(text.substr(start)).code_point)) {
        begin = at;
        break;
      }
      at = start;
    }
    return text.substr(begin);
  }

  Runtime& runtime_;
  ListBuilder out_;
  std::string_view text_;
};

template <bool from_right>
Value split(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  const int64_t limit = bound.integer(1, -1);
  Splitter splitter(runtime, self);
  if (bound[0].is_none()) {
    splitter.by_space(limit, from_right);
  } else {
    splitter.by_separator(bound.text(0, ""), limit, from_right);
  }
  return splitter.result();
}

template <bool from_right>
Value partition(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("partition", args, {"sep"}, 1);
  const std::string_view text = self.text(), separator = bound.text(0, "");
  if (separator.empty()) fail(Fault::Value, "empty separator");
  const size_t at = from_right ? rfind_text(runtime, text, separator) : find_text(text, separator);
  std::string_view head = text, middle, tail;
  if (at != kNone) {
    head = text.substr(0, at);
    middle = separator;
    tail = text.substr(at + separator.size());
  } else if (from_right) {
    std::swap(head, tail);
  }
  return runtime.tuple({runtime.string(std::string(head)), runtime.string(std::string(middle)),
                        runtime.string(std::string(tail))});
}

Value splitlines(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("splitlines", args, {"keepends"});
  ListBuilder out(runtime);
  for (const std::string_view line : split_lines(runtime, self.text(), bound.flag(0, false))) {
    out.push(runtime.string(std::string(line)));
  }
  return out.list();
}

constexpr NamedMethod kMethods[] = {
    {"count", count},
    {"endswith", affix<true>},
    {"find", find<false>},
    {"index", index<false>},
    {"partition", partition<false>},
    {"replace", replace},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
};

}  // namespace

MethodFn find_search_method(std::string_view name) {
  for (const NamedMethod& method : kMethods) {
    if (method.name == name) return method.function;
  }
  return nullptr;
}

std::string replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                         std::string_view replacement, int64_t count) {
  TextBuilder out(runtime);
  runtime.heap().touch(text.size());
  size_t begin = 0;
  if (old.empty()) {
    // An empty pattern matches before every character and at the end.
    while (count != 0) {
      out.append(replacement);
      if (begin >= text.size()) return out.take();
      const auto length = static_cast<size_t>(utf8::decode(text.substr(begin)).length);
      out.append(text.substr(begin, length));
      begin += length;
      if (count > 0) --count;
      runtime.heap().step();
    }
  }
  for (size_t at = count == 0 ? kNone : find_text(text, old); at != kNone;
       at = count == 0 ? kNone : find_text(text, old, begin)) {
    runtime.heap().step();
    out.append(text.substr(begin, at - begin));
    out.append(replacement);
    begin = at + old.size();
    if (count > 0) --count;
  }
  out.append(text.substr(begin));
  return out.take();
}

std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.heap().touch(text.size());
  Charge room(&runtime.heap());
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    const char32_t code = c.code_point;
    const size_t end = at;
    at += static_cast<size_t>(c.length);
    const bool boundary = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) ||
                          code == 0x85 || code == 0x2028 || code == 0x2029;
    if (!boundary) continue;
    runtime.heap().step();
    room.add(2 * sizeof(std::string_view));
    if (code == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace mlxcel::text::jinja
