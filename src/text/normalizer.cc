#include "text/normalizer.h"

#include <fmt/core.h>

#include <vector>

#include "base/utf8.h"
#include "text/pretokenizer.h"
#include "text/unicode_hf.h"

namespace mlxcel::text {
namespace {

using unicode::Form;

constexpr int kMaxDepth = 16;

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(Form form) : form_(form) {}
  void apply(NormalizedText& text) const override { unicode::normalize(text.text, form_); }

 private:
  Form form_;
};

// Rewrites character by character: `map` appends what a character becomes (nothing: it is removed).
template <class Map>
void rewrite(NormalizedText& text, Map&& map) {
  std::string out;
  out.reserve(text.text.size());
  for (size_t at = 0; at < text.text.size();) {
    const bool first = at == 0;
    map(unicode::next(text.text, at), out);
    if (first && out.empty()) text.at_origin = false;
  }
  text.text = std::move(out);
}

void append(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else {
    utf8::append(out, c);
  }
}

void lowercase(NormalizedText& text) {
  rewrite(text, [](char32_t c, std::string& out) { unicode::append_lowercase(out, c); });
}

class Lowercase final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override { lowercase(text); }
};

class StripAccents final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite(text, [](char32_t c, std::string& out) {
      if (!unicode::is_hf_combining_mark(c)) append(out, c);
    });
  }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    const std::string& s = text.text;
    size_t begin = 0, end = s.size();
    while (left_ && begin < end) {
      size_t at = begin;
      if (!unicode::is_space(unicode::next(s, at))) break;
      begin = at;
    }
    while (right_ && end > begin) {
      const size_t start = unicode::previous(s, end);
      size_t at = start;
      if (!unicode::is_space(unicode::next(s, at))) break;
      end = start;
    }
    if (begin > 0) text.at_origin = false;
    text.text = s.substr(begin, end - begin);
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override {
    if (!text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override {
    const std::string& s = text.text;
    std::string out;
    size_t done = 0;
    MatchWalk walk(*pattern_, s);
    Match m;
    bool origin = text.at_origin;
    while (walk.next(m)) {
      if (m.begin == 0 && m.end > 0) {
        // The replacement counts as coming from the last character it replaces.
        origin = origin && !content_.empty() && unicode::previous(s, m.end) == 0;
      }
      out.append(s, done, m.begin - done);
      out += content_;
      done = m.end;
    }
    if (done == 0 && out.empty()) return;
    out.append(s, done);
    text.text = std::move(out);
    text.at_origin = origin;
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

// Clean-up of NMT models.
class Nmt final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    rewrite(text, [](char32_t c, std::string& out) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
          c == 0x9F) {
        return;
      }
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      append(out, space ? U' ' : c);
    });
  }
};

class ByteLevel final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    std::string out;
    unicode::append_byte_level(out, text.text);
    text.text = std::move(out);
  }
};

class Bert final : public Normalizer {
 public:
  Bert(bool clean, bool cjk, bool accents, bool lower)
      : clean_(clean), cjk_(cjk), accents_(accents), lower_(lower) {}
  void apply(NormalizedText& text) const override {
    if (clean_) {
      rewrite(text, [](char32_t c, std::string& out) {
        if (unicode::is_bert_control(c)) return;
        append(out, unicode::is_space(c) ? U' ' : c);
      });
    }
    if (cjk_) {
      rewrite(text, [](char32_t c, std::string& out) {
        const bool spaced = unicode::is_bert_cjk(c);
        if (spaced) out += ' ';
        append(out, c);
        if (spaced) out += ' ';
      });
    }
    if (accents_) {
      unicode::normalize(text.text, Form::NFD);
      rewrite(text, [](char32_t c, std::string& out) {
        if (!unicode::is_hf_nonspacing_mark(c)) append(out, c);
      });
    }
    if (lower_) lowercase(text);
  }

 private:
  bool clean_, cjk_, accents_, lower_;
};

bool flag(const Json& json, std::string_view key, bool fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_bool();
}

const Json& member(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    throw Error(Code::InvalidArgument, fmt::format("\"{}\" is missing", key));
  }
  return *value;
}

std::unique_ptr<Normalizer> make_bert(const Json& json) {
  const bool lower = flag(json, "lowercase", true);
  return std::make_unique<Bert>(flag(json, "clean_text", true),
                                flag(json, "handle_chinese_chars", true),
                                flag(json, "strip_accents", lower), lower);
}

std::unique_ptr<Normalizer> make(const Json& json, int depth) {
  if (depth > kMaxDepth) throw Error(Code::InvalidArgument, "sequences are nested too deeply");
  const std::string& type = member(json, "type").as_string();
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const Json& part : member(json, "normalizers").as_array()) {
      parts.push_back(make(part, depth + 1));
    }
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "NFC") return std::make_unique<UnicodeForm>(Form::NFC);
  if (type == "NFD") return std::make_unique<UnicodeForm>(Form::NFD);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(Form::NFKC);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(Form::NFKD);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "Strip") {
    return std::make_unique<Strip>(flag(json, "strip_left", true), flag(json, "strip_right", true));
  }
  if (type == "Prepend") return std::make_unique<Prepend>(member(json, "prepend").as_string());
  if (type == "Replace") {
    return std::make_unique<Replace>(make_pattern(member(json, "pattern")),
                                     member(json, "content").as_string());
  }
  if (type == "BertNormalizer" || type == "Bert") return make_bert(json);
  if (type == "Precompiled") {
    const Json* map = json.find("precompiled_charsmap");
    if (map == nullptr || map->is_null())
      return std::make_unique<Sequence>(std::vector<std::unique_ptr<Normalizer>>{});
    return make_precompiled(map->as_string());
  }
  throw Error(Code::Unsupported, fmt::format("unknown normalizer \"{}\"", type));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json* json) {
  if (json == nullptr || json->is_null()) return nullptr;
  return with_context("normalizer", [&] { return make(*json, 0); });
}

}  // namespace mlxcel::text
