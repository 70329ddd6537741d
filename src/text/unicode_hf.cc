#include "text/unicode_hf.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace mlxcel::text::unicode {

bool is_rust_numeric(char32_t c) { return in(c, kNumber); }

bool is_rust_word(char32_t c) {
  return in(c, kLetter | kMark | set_of(Category::Nd, Category::Nl, Category::Pc));
}

bool is_hf_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !in(c, kLetter | kNumber);
  return in(c, kPunctuation);
}

bool is_bert_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0xFFFD || in(c, set_of(Category::Cc, Category::Cf, Category::Co));
}

bool is_hf_nonspacing_mark(char32_t c) { return in(c, set_of(Category::Mn)); }
bool is_hf_combining_mark(char32_t c) { return in(c, kMark); }

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
    utf8::append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

int sentencepiece_script(char32_t c) { return in(c, kLetter) ? 1 : kAnyScript; }

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
  struct Free {
    void operator()(utf8proc_uint8_t* p) const { std::free(p); }
  };
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()), &result,
                                          static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, Free> owned(result);
  if (n < 0) {
    throw Error(Code::Internal, std::string("normalizing text failed: ") + utf8proc_errmsg(n));
  }
  text.assign(reinterpret_cast<const char*>(result), static_cast<size_t>(n));
}

}  // namespace mlxcel::text::unicode
