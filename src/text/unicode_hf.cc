#include "text/unicode_hf.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_tables.h"

namespace mlxcel::text::unicode {

namespace {

// Whether `c` lies in one of the ranges.
bool listed(const Table& ranges, char32_t c) {
  size_t low = 0, high = ranges.size / 2;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (c > ranges.data[middle * 2 + 1]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < ranges.size / 2 && c >= ranges.data[low * 2];
}

// The value of the run that `c` lies in.
uint32_t run_value(const Table& runs, unsigned bits, char32_t c) {
  size_t low = 0, high = runs.size;
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    if (runs.data[middle] >> bits <= c) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return runs.data[low] & ((1U << bits) - 1);
}

constexpr CategorySet kWord = kLetter | kMark | set_of(Category::Nd, Category::Nl, Category::Pc);

}  // namespace

bool is_rust_numeric(char32_t c) {
  return in(c, kNumber) != (c >= 0x80 && listed(kRustNumeric, c));
}

bool is_rust_word(char32_t c) { return in(c, kWord) != (c >= 0x80 && listed(kRustWord, c)); }

bool is_hf_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !in(c, kLetter | kNumber);
  return in(c, kPunctuation) != listed(kHfPunctuation, c);
}

bool is_bert_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  const bool control = c == 0xFFFD || in(c, set_of(Category::Cc, Category::Cf, Category::Co));
  return control != (c >= 0x80 && listed(kBertRemoved, c));
}

bool is_hf_nonspacing_mark(char32_t c) {
  return c >= 0x300 && in(c, set_of(Category::Mn)) != listed(kHfNonspacing, c);
}

bool is_hf_combining_mark(char32_t c) {
  return c >= 0x300 && in(c, kMark) != listed(kHfCombining, c);
}

bool is_bert_cjk(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void append_lowercase(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {  // the only character whose full mapping has two
    out += "i\u0307";
  } else {
    char32_t lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    for (size_t i = 0; i < kLowercase.size; i += 2) {
      if (kLowercase.data[i] == c) lower = kLowercase.data[i + 1];
    }
    utf8::append(out, lower);
  }
}

int sentencepiece_script(char32_t c) { return static_cast<int>(run_value(kScriptRuns, 8, c)); }

namespace {

void append_normalized(std::string_view part, int options, std::string& out) {
  if (part.empty()) return;
  struct Free {
    void operator()(utf8proc_uint8_t* p) const { std::free(p); }
  };
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()),
                                          static_cast<utf8proc_ssize_t>(part.size()), &result,
                                          static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(result);
  if (n < 0) {
    throw Error(Code::Internal, std::string("normalizing text failed: ") + utf8proc_errmsg(n));
  }
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(n));
}

}  // namespace

void normalize(std::string& text, Form form) {
  if (is_ascii(text)) return;
  int options = UTF8PROC_STABLE;
  switch (form) {
    case Form::NFC:
      options |= UTF8PROC_COMPOSE;
      break;
    case Form::NFD:
      options |= UTF8PROC_DECOMPOSE;
      break;
    case Form::NFKC:
      options |= UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
      break;
    case Form::NFKD:
      options |= UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
      break;
  }
  // A character that the reference does not know parts the text: nothing moves across it.
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t c = next(text, at);
    if (c < kNormalizationInert.data[0] || !listed(kNormalizationInert, c)) continue;
    append_normalized(std::string_view(text).substr(begin, start - begin), options, out);
    out.append(text, start, at - start);
    begin = at;
  }
  append_normalized(std::string_view(text).substr(begin), options, out);
  text = std::move(out);
}

}  // namespace mlxcel::text::unicode
