// The wordwrap filter: Python's textwrap.wrap on every line.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

using Text = std::u32string_view;

struct Options {
  size_t width = 79;
  bool break_long_words = true, break_on_hyphens = true;
};

bool is_wrap_space(char32_t c) { return (c >= 9 && c <= 13) || c == ' '; }
bool is_letter(char32_t c) { return is_word(c) && !is_decimal(c); }

bool before_dash(char32_t c) {
  return is_word(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
         c == '?';
}

/// Length of the em-dash at `at` (two or more hyphens between words), or 0.
size_t dash_length(Text text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] == '-') ++end;
  const bool dash = end - at >= 2 && at > 0 && before_dash(text[at - 1]) && end < text.size() &&
                    is_word(text[end]);
  return dash ? end - at : 0;
}

/// True when the hyphen at `at` joins two words of at least two letters.
bool breaks_after_hyphen(Text text, size_t at) {
  const auto letter = [&](size_t i) { return i < text.size() && is_letter(text[i]); };
  const bool two_letters = at >= 2 && letter(at - 1) && letter(at - 2);
  const bool hyphen_letter = at >= 3 && letter(at - 1) && text[at - 2] == '-' && letter(at - 3);
  if (!two_letters && !hyphen_letter) return false;
  return letter(at + 1) &&
         (letter(at + 2) || (at + 2 < text.size() && text[at + 2] == '-' && letter(at + 3)));
}

/// End of the chunk that starts at `begin`: a run of white space, an em-dash or a word.
size_t chunk_end(Text text, size_t begin, bool hyphens) {
  size_t end = begin;
  if (is_wrap_space(text[begin])) {
    while (end < text.size() && is_wrap_space(text[end])) ++end;
    return end;
  }
  if (!hyphens) {
    while (end < text.size() && !is_wrap_space(text[end])) ++end;
    return end;
  }
  const size_t dash = dash_length(text, begin);
  if (dash > 0) return begin + dash;
  for (end = begin + 1; end < text.size() && !is_wrap_space(text[end]); ++end) {
    if (text[end] != '-') continue;
    if (breaks_after_hyphen(text, end)) return end + 1;
    if (dash_length(text, end) > 0) return end;
  }
  return end;
}

bool is_blank(Text text) { return std::all_of(text.begin(), text.end(), is_space); }

class Wrapper {
 public:
  Wrapper(Runtime& runtime, const Options& options) : runtime_(runtime), options_(options) {}

  std::vector<std::string> wrap(Text text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = chunk_end(text, at, options_.break_on_hyphens);
      chunks_.push_back(text.substr(at, end - at));
      at = end;
    }
    std::reverse(chunks_.begin(), chunks_.end());
    while (!chunks_.empty()) line();
    return std::move(lines_);
  }

 private:
  void line() {
    runtime_.heap().step();
    if (!lines_.empty() && is_blank(chunks_.back())) chunks_.pop_back();
    std::vector<Text> current;
    size_t length = 0;
    while (!chunks_.empty() && length + chunks_.back().size() <= options_.width) {
      length += chunks_.back().size();
      current.push_back(chunks_.back());
      chunks_.pop_back();
    }
    if (!chunks_.empty() && chunks_.back().size() > options_.width) long_word(current, length);
    if (!current.empty() && is_blank(current.back())) current.pop_back();
    if (current.empty()) return;
    std::string text;
    for (const Text part : current) text += encode(part);
    lines_.push_back(std::move(text));
  }

  void long_word(std::vector<Text>& current, size_t length) {
    const size_t left = options_.width - length;
    if (!options_.break_long_words) {
      if (!current.empty()) return;
      current.push_back(chunks_.back());
      chunks_.pop_back();
      return;
    }
    Text& chunk = chunks_.back();
    size_t end = left;
    if (options_.break_on_hyphens && chunk.size() > left) {
      const Text head = chunk.substr(0, left);
      const size_t hyphen = head.rfind(U'-');
      if (hyphen != Text::npos && hyphen > 0 &&
          head.substr(0, hyphen).find_first_not_of(U'-') != Text::npos) {
        end = hyphen + 1;
      }
    }
    current.push_back(chunk.substr(0, end));
    chunk.remove_prefix(end);
  }

  Runtime& runtime_;
  Options options_;
  std::vector<Text> chunks_;  // last one first
  std::vector<std::string> lines_;
};

}  // namespace

Value filter_wordwrap(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("wordwrap", args,
                    {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t width = bound.integer(0, 79);
  const std::string_view separator = bound[2].is_none() ? "\n" : bound.text(2, "\n");
  if (subject.is_undefined()) fail_undefined(subject);
  if (!subject.is_string()) {
    fail(Fault::Type, "'" + type_name(subject) + "' object has no attribute 'splitlines'");
  }
  const std::string_view text = subject.text();
  runtime.heap().touch(16 * text.size());
  // A chunk of one character takes this much more than its byte.
  const Charge room(&runtime.heap(), text.size() * (sizeof(Text) + sizeof(std::string)));
  TextBuilder out(runtime);
  bool first_line = true;
  for (const std::string_view line : split_lines(runtime, text)) {
    if (width <= 0) {
      fail(Fault::Value, "invalid width " + std::to_string(width) + " (must be > 0)");
    }
    const std::u32string characters = decode(line);
    const Options options{static_cast<size_t>(width), bound.flag(1, true), bound.flag(3, true)};
    if (!first_line) out.append(separator);
    first_line = false;
    bool first = true;
    for (const std::string& part : Wrapper(runtime, options).wrap(characters)) {
      if (!first) out.append(separator);
      first = false;
      out.append(part);
    }
  }
  return runtime.string(out.take());
}

}  // namespace mlxcel::text::jinja
