#include "text/pretokenizer.h"

#include <fmt/core.h>

#include "text/unicode.h"
#include "text/unicode_hf.h"

namespace mlxcel::text {
namespace {

// Turns a sequence of matched and unmatched stretches into pieces.
class Segments {
 public:
  Segments(const Piece& piece, SplitBehavior behavior, PieceSink& out)
      : piece_(piece), behavior_(behavior), out_(out) {}

  void add(size_t begin, size_t end, bool match) {
    switch (behavior_) {
      case SplitBehavior::Removed:
        if (!match) emit(begin, end);
        return;
      case SplitBehavior::Isolated:
        emit(begin, end);
        return;
      case SplitBehavior::Contiguous:
        join(begin, end, has_ && match == previous_);
        break;
      case SplitBehavior::MergedWithPrevious:
        join(begin, end, has_ && match && !previous_);
        break;
      case SplitBehavior::MergedWithNext:
        join(begin, end, has_ && previous_ && !match);
        break;
    }
    previous_ = match;
  }
  void finish() {
    if (has_) emit(begin_, end_);
  }

 private:
  void join(size_t begin, size_t end, bool extend) {
    if (!extend) {
      if (has_) emit(begin_, end_);
      begin_ = begin;
    }
    end_ = end;
    has_ = true;
  }
  void emit(size_t begin, size_t end) {
    if (begin == end) return;
    out_.piece({piece_.text.substr(begin, end - begin), piece_.at_origin && begin == 0});
  }

  const Piece& piece_;
  SplitBehavior behavior_;
  PieceSink& out_;
  size_t begin_ = 0, end_ = 0;
  bool has_ = false, previous_ = false;
};

void split_by(const Pattern& pattern, SplitBehavior behavior, bool invert, const Piece& piece,
              PieceSink& out) {
  Segments segments(piece, behavior, out);
  MatchWalk walk(pattern, piece.text);
  Match m;
  size_t done = 0;
  while (walk.next(m)) {
    if (m.begin > done) segments.add(done, m.begin, invert);
    segments.add(m.begin, m.end, !invert);
    done = m.end;
  }
  if (done < piece.text.size()) segments.add(done, piece.text.size(), invert);
  segments.finish();
}

class Split final : public PreTokenizer {
 public:
  Split(std::unique_ptr<Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const Piece& piece, PieceSink& out) const override {
    split_by(*pattern_, behavior_, invert_, piece, out);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class CharSplit final : public PreTokenizer {
 public:
  CharSplit(std::function<bool(char32_t)> matches, SplitBehavior behavior)
      : matches_(std::move(matches)), behavior_(behavior) {}
  void split(const Piece& piece, PieceSink& out) const override {
    Segments segments(piece, behavior_, out);
    size_t done = 0;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t begin = at;
      if (!matches_(unicode::next(piece.text, at))) continue;
      if (begin > done) segments.add(done, begin, false);
      segments.add(begin, at, true);
      done = at;
    }
    if (done < piece.text.size()) segments.add(done, piece.text.size(), false);
    segments.finish();
  }

 private:
  std::function<bool(char32_t)> matches_;
  SplitBehavior behavior_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool map)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex), map_(map) {
    pattern_ = compile_regex(
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  }
  void split(const Piece& piece, PieceSink& out) const override {
    std::string prefixed;
    Piece whole = piece;
    if (add_prefix_space_ && !piece.text.starts_with(' ')) {
      prefixed.reserve(piece.text.size() + 1);
      prefixed += ' ';
      prefixed += piece.text;
      whole.text = prefixed;
    }
    Mapper mapper(out);
    PieceSink& sink = map_ ? static_cast<PieceSink&>(mapper) : out;
    if (use_regex_) {
      split_by(*pattern_, SplitBehavior::Isolated, false, whole, sink);
    } else {
      sink.piece(whole);
    }
  }

 private:
  struct Mapper final : PieceSink {
    explicit Mapper(PieceSink& sink) : out(sink) {}
    void piece(const Piece& piece) override {
      text.clear();
      unicode::append_byte_level(text, piece.text);
      out.piece({text, piece.at_origin});
    }
    PieceSink& out;
    std::string text;
  };
  bool add_prefix_space_, use_regex_, map_;
  std::unique_ptr<Pattern> pattern_;
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend : uint8_t { First, Never, Always };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void split(const Piece& piece, PieceSink& out) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + replacement_.size());
    const bool starts = piece.text.starts_with(' ') || piece.text.starts_with(replacement_);
    if (!starts &&
        (prepend_ == Prepend::Always || (prepend_ == Prepend::First && piece.at_origin))) {
      text += replacement_;
    }
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement_;
      } else {
        text += c;
      }
    }
    if (!split_) return out.piece({text, piece.at_origin});
    const Piece replaced{text, piece.at_origin};
    Segments segments(replaced, SplitBehavior::MergedWithNext, out);
    size_t done = 0;
    for (size_t at = text.find(replacement_); at != std::string::npos;
         at = text.find(replacement_, done)) {
      if (at > done) segments.add(done, at, false);
      done = at + replacement_.size();
      segments.add(at, done, true);
    }
    if (done < text.size()) segments.add(done, text.size(), false);
    segments.finish();
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

// Words of Rust's regex crate (\w+) and runs of what is neither word nor white space.
class Whitespace final : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink& out) const override {
    const auto kind_of = [](char32_t c) {
      return unicode::is_space(c) ? 0 : unicode::is_rust_word(c) ? 1 : 2;
    };
    size_t begin = 0;
    int kind = 0;
    const auto flush = [&](size_t end) {
      if (kind != 0 && end > begin) {
        out.piece({piece.text.substr(begin, end - begin), piece.at_origin && begin == 0});
      }
      begin = end;
    };
    for (size_t at = 0; at < piece.text.size();) {
      const size_t start = at;
      const int next = kind_of(unicode::next(piece.text, at));
      if (next != kind) flush(start);
      kind = next;
    }
    flush(piece.text.size());
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(size_t length) : length_(length) {}
  void split(const Piece& piece, PieceSink& out) const override {
    size_t begin = 0, count = 0;
    for (size_t at = 0; at < piece.text.size();) {
      unicode::next(piece.text, at);
      if (++count < length_ && at < piece.text.size()) continue;
      out.piece({piece.text.substr(begin, at - begin), piece.at_origin && begin == 0});
      begin = at;
      count = 0;
    }
  }

 private:
  size_t length_;
};

class UnicodeScripts final : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink& out) const override {
    int last = -1;
    size_t begin = 0;
    bool open = false;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t start = at;
      const int script = unicode::sentencepiece_script(unicode::next(piece.text, at));
      if (script == unicode::kAnyScript) continue;
      if (last != script) {
        // The reference drops what stands before the first character that has a script.
        if (open)
          out.piece({piece.text.substr(begin, start - begin), piece.at_origin && begin == 0});
        begin = start;
        open = true;
      }
      last = script;
    }
    if (open) out.piece({piece.text.substr(begin), piece.at_origin && begin == 0});
  }
};

bool is_punctuation(char32_t c) { return unicode::is_hf_punctuation(c); }

SplitBehavior behavior_of(const Json* json, SplitBehavior fallback) {
  if (json == nullptr || json->is_null()) return fallback;
  const std::string& name = json->as_string();
  if (name == "Removed") return SplitBehavior::Removed;
  if (name == "Isolated") return SplitBehavior::Isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous") return SplitBehavior::Contiguous;
  throw Error(Code::InvalidArgument, fmt::format("unknown split behavior \"{}\"", name));
}

bool flag(const Json& json, std::string_view key, bool fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_bool();
}

std::unique_ptr<PreTokenizer> make_metaspace(const Json& json) {
  const Json* replacement = json.find("replacement");
  const std::string mark = replacement != nullptr ? replacement->as_string() : "▁";
  auto prepend = Metaspace::Prepend::Always;
  if (const Json* scheme = json.find("prepend_scheme"); scheme != nullptr && !scheme->is_null()) {
    const std::string& name = scheme->as_string();
    if (name == "first") {
      prepend = Metaspace::Prepend::First;
    } else if (name == "never") {
      prepend = Metaspace::Prepend::Never;
    } else if (name != "always") {
      throw Error(Code::InvalidArgument,
                  fmt::format("unknown prepend_scheme \"{}\" of Metaspace", name));
    }
  }
  if (!flag(json, "add_prefix_space", true)) prepend = Metaspace::Prepend::Never;
  size_t at = 0;
  if (!mark.empty()) unicode::next(mark, at);
  if (mark.empty() || at != mark.size()) {
    throw Error(Code::InvalidArgument, "the replacement of Metaspace must be one character");
  }
  return std::make_unique<Metaspace>(mark, prepend, flag(json, "split", true));
}

const std::string& text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr) {
    throw Error(Code::InvalidArgument, fmt::format("\"{}\" is missing", key));
  }
  return value->as_string();
}

constexpr int kMaxDepth = 16;

void add_stages(const Json& json, bool raw_bytes, bool last, int depth, PreTokenizers& out) {
  if (depth > kMaxDepth) throw Error(Code::InvalidArgument, "sequences are nested too deeply");
  const std::string& type = text_of(json, "type");
  const auto push = [&](std::unique_ptr<PreTokenizer> stage) {
    out.stages.push_back(std::move(stage));
  };
  if (type == "Sequence") {
    const Json* list = json.find("pretokenizers");
    if (list == nullptr) throw Error(Code::InvalidArgument, "\"pretokenizers\" is missing");
    const size_t n = list->as_array().size();
    for (size_t i = 0; i < n; ++i) {
      add_stages(list->as_array()[i], raw_bytes, last && i + 1 == n, depth + 1, out);
    }
  } else if (type == "ByteLevel") {
    out.maps_bytes = last;
    push(make_byte_level(flag(json, "add_prefix_space", true), flag(json, "use_regex", true),
                         !(last && raw_bytes)));
  } else if (type == "Split") {
    const Json* pattern = json.find("pattern");
    if (pattern == nullptr) throw Error(Code::InvalidArgument, "\"pattern\" is missing");
    push(make_split(make_pattern(*pattern),
                    behavior_of(json.find("behavior"), SplitBehavior::Isolated),
                    flag(json, "invert", false)));
  } else if (type == "Metaspace") {
    push(make_metaspace(json));
  } else if (type == "Whitespace") {
    push(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    push(make_char_split(&unicode::is_space, SplitBehavior::Removed));
  } else if (type == "BertPreTokenizer") {
    push(make_char_split(&unicode::is_space, SplitBehavior::Removed));
    push(make_char_split(&is_punctuation, SplitBehavior::Isolated));
  } else if (type == "Punctuation") {
    push(make_char_split(&is_punctuation,
                         behavior_of(json.find("behavior"), SplitBehavior::Isolated)));
  } else if (type == "Digits") {
    push(make_char_split(&unicode::is_rust_numeric, flag(json, "individual_digits", false)
                                                        ? SplitBehavior::Isolated
                                                        : SplitBehavior::Contiguous));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    const std::string& delimiter = text_of(json, "delimiter");
    push(make_split(compile_literal(delimiter), SplitBehavior::Removed, false));
  } else if (type == "UnicodeScripts") {
    push(std::make_unique<UnicodeScripts>());
  } else if (type == "FixedLength") {
    const Json* length = json.find("length");
    const int64_t n = length != nullptr ? length->as_int() : 5;
    if (n < 1) throw Error(Code::InvalidArgument, "the length of FixedLength must be positive");
    push(std::make_unique<FixedLength>(static_cast<size_t>(n)));
  } else {
    throw Error(Code::Unsupported, fmt::format("unknown pre-tokenizer \"{}\"", type));
  }
}

// Hands the pieces of one stage to the next.
class Chain final : public PieceSink {
 public:
  Chain(const PreTokenizers& stages, size_t next, PieceSink& out)
      : stages_(stages), next_(next), out_(out) {}
  void piece(const Piece& piece) override {
    if (!piece.text.empty()) stages_.run(piece, out_, next_);
  }

 private:
  const PreTokenizers& stages_;
  size_t next_;
  PieceSink& out_;
};

}  // namespace

void PreTokenizers::run(const Piece& piece, PieceSink& out, size_t first) const {
  if (first >= stages.size()) return out.piece(piece);
  if (first + 1 == stages.size()) return stages[first]->split(piece, out);
  Chain chain(*this, first + 1, out);
  stages[first]->split(piece, chain);
}

PreTokenizers make_pre_tokenizers(const Json* json, bool raw_bytes) {
  PreTokenizers out;
  if (json != nullptr && !json->is_null()) {
    with_context("pre_tokenizer", [&] { add_stages(*json, raw_bytes, true, 0, out); });
  }
  return out;
}

std::unique_ptr<PreTokenizer> make_split(std::unique_ptr<Pattern> pattern, SplitBehavior behavior,
                                         bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<PreTokenizer> make_char_split(bool (*matches)(char32_t), SplitBehavior behavior) {
  return std::make_unique<CharSplit>(matches, behavior);
}

std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex, map);
}

std::unique_ptr<Pattern> make_pattern(const Json& json) {
  if (json.is_string()) return compile_literal(json.as_string());
  if (const Json* literal = json.find("String")) return compile_literal(literal->as_string());
  if (const Json* regex = json.find("Regex")) return compile_regex(regex->as_string());
  throw Error(Code::InvalidArgument, "a pattern must have \"String\" or \"Regex\"");
}

}  // namespace mlxcel::text
