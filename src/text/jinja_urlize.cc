// The urlize filter: makes links of what looks like an address.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

/// A compiled pattern that must match all of a text.
class Pattern {
 public:
  explicit Pattern(const char* source) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source), PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_CASELESS | PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                      &error, &offset, nullptr));
    MLXCEL_CHECK(code_ != nullptr, "a built-in pattern does not compile");
  }

  bool matches(std::string_view text) const {
    const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
        pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(context.get(), 100'000);
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       data.get(), context.get()) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

bool is_web_address(std::string_view text) {
  static const Pattern kPattern(
      R"((?:(?:https?://|www\.)(?:(?:[\w%-]+\.)+)?(?:[a-z]{2,63}|xn--[\w%]{2,59}))"
      R"(|(?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil))"
      R"(|https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\])))"
      R"((?::\d{1,5})?(?:[/?#]\S*)?)");
  return kPattern.matches(text);
}

bool is_mail_address(std::string_view text) {
  static const Pattern kPattern(R"(\S+@\w[\w.-]*\.\w+)");
  return kPattern.matches(text);
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size()))
    ++n;
  return n;
}

/// Length of the run of opening ( < &lt; at the front.
size_t head_length(std::string_view text) {
  size_t n = 0;
  while (true) {
    const std::string_view rest = text.substr(n);
    if (rest.starts_with('(') || rest.starts_with('<')) {
      ++n;
    } else if (rest.starts_with("&lt;")) {
      n += 4;
    } else {
      return n;
    }
  }
}

/// Length of the run of closing ) > . , &gt; at the end.
size_t tail_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const std::string_view rest = text.substr(0, text.size() - n);
    const char c = rest.back();
    if (rest.ends_with("&gt;")) {
      n += 4;
    } else if (c == ')' || c == '>' || c == '.' || c == ',' || c == '\n') {
      ++n;
    } else {
      break;
    }
  }
  return n;
}

struct LinkOptions {
  int64_t limit = -1;
  std::string attributes;
  std::vector<std::string> schemes;
};

std::string trimmed(std::string_view text, int64_t limit) {
  if (limit < 0 || static_cast<int64_t>(utf8::count(text)) <= limit) return std::string(text);
  return std::string(text.substr(0, byte_offset(text, static_cast<size_t>(limit)))) + "...";
}

std::string link(const std::string& middle, const LinkOptions& options) {
  if (is_web_address(middle)) {
    const bool scheme = middle.starts_with("https://") || middle.starts_with("http://");
    return "<a href=\"" + std::string(scheme ? "" : "https://") + middle + "\"" +
           options.attributes + ">" + trimmed(middle, options.limit) + "</a>";
  }
  if (middle.starts_with("mailto:") && is_mail_address(std::string_view(middle).substr(7))) {
    return "<a href=\"" + middle + "\">" + middle.substr(7) + "</a>";
  }
  if (middle.find('@') != std::string::npos && !middle.starts_with("www.") &&
      !middle.starts_with('@') && middle.find(':') == std::string::npos &&
      is_mail_address(middle)) {
    return "<a href=\"mailto:" + middle + "\">" + middle + "</a>";
  }
  for (const std::string& scheme : options.schemes) {
    if (middle != scheme && middle.starts_with(scheme)) {
      return "<a href=\"" + middle + "\"" + options.attributes + ">" + middle + "</a>";
    }
  }
  return middle;
}

std::string link_word(std::string_view word, const LinkOptions& options) {
  const size_t head = head_length(word);
  std::string middle(word.substr(head));
  const size_t cut = tail_length(middle);
  std::string tail = middle.substr(middle.size() - cut);
  middle.resize(middle.size() - cut);
  // Brackets that were opened inside belong to the address.
  static constexpr std::string_view kPairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
  for (const auto& [open, close] : kPairs) {
    const size_t opened = count_of(middle, open);
    if (opened <= count_of(middle, close)) continue;
    for (size_t n = std::min(opened, count_of(tail, close)); n > 0; --n) {
      const size_t end = tail.find(close) + close.size();
      middle += tail.substr(0, end);
      tail.erase(0, end);
    }
  }
  return std::string(word.substr(0, head)) + link(middle, options) + tail;
}

std::string attributes_of(Runtime& runtime, const Bound& bound) {
  std::set<std::string> words = {"noopener"};
  if (bound[3].is_string()) {
    Args none;
    for (const Value& word :
         iterate(runtime, find_string_method("split")(runtime, bound[3], none))) {
      words.emplace(word.text());
    }
  }
  if (bound.flag(1, false)) words.emplace("nofollow");
  std::string rel;
  for (const std::string& word : words) rel += (rel.empty() ? "" : " ") + word;
  std::string out = " rel=\"" + escape_html(rel) + "\"";
  if (bound[2].is_string()) out += " target=\"" + escape_html(bound[2].text()) + "\"";
  return out;
}

}  // namespace

Value filter_urlize(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("urlize", args,
                    {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  LinkOptions options;
  if (!bound[0].is_none()) options.limit = bound.integer(0, -1);
  options.attributes = attributes_of(runtime, bound);
  if (!bound[4].is_none()) {
    for (const Value& scheme : iterate(runtime, bound[4])) {
      options.schemes.push_back(to_str(runtime, scheme));
    }
  }
  const Value escaped = escape(runtime, subject);
  std::string_view rest = escaped.text();
  TextBuilder out(runtime);
  while (!rest.empty()) {
    const std::string_view word_on = strip_left(rest);
    out.append(rest.substr(0, rest.size() - word_on.size()));
    rest = word_on;
    size_t end = 0;
    while (end < rest.size()) {
      const utf8::Decoded c = utf8::decode(rest.substr(end));
      if (is_space(c.code_point)) break;
      end += static_cast<size_t>(c.length);
    }
    // A word is looked at a few hundred times at most, whatever the patterns try.
    runtime.heap().step(static_cast<int64_t>(std::min<size_t>(end, 4096)));
    if (end > 0)
      out.append(end > 65536 ? std::string(rest.substr(0, end))
                             : link_word(rest.substr(0, end), options));
    rest.remove_prefix(end);
  }
  return make_string(&runtime.heap(), out.take(), runtime.autoescape());
}

}  // namespace mlxcel::text::jinja
