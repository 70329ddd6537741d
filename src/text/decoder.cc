#include "text/decoder.h"

#include <fmt/core.h>

#include <optional>

#include "base/utf8.h"
#include "text/decoder_stages.h"
#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

// ---- ByteLevel: all cells become one, read as bytes; broken UTF-8 is replaced.
class ByteLevelDecoder final : public Decoder {
 public:
  explicit ByteLevelDecoder(bool alphabet) : alphabet_(alphabet) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, alphabet_);
  }
  std::string middle(std::string token) const override {
    std::string bytes;
    return alphabet_ && unicode::decode_byte_level(token, bytes) ? bytes : token;
  }

 private:
  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, bool alphabet) : WholeCells(next), alphabet_(alphabet) {}
    void end() override {
      next_.append(utf8::repair(pending_));
      next_.close();
      next_.end();
    }

   private:
    void work(std::string& cell) override {
      std::string bytes;
      pending_ += alphabet_ && unicode::decode_byte_level(cell, bytes) ? bytes : cell;
      const size_t n = utf8::complete_prefix(pending_);
      if (n == 0) return;
      const std::string_view ready = std::string_view(pending_).substr(0, n);
      if (unicode::is_valid(ready)) {
        next_.append(ready);
      } else {
        next_.append(utf8::repair(ready));
      }
      pending_.erase(0, n);
    }
    bool alphabet_;
    std::string pending_;
  };
  bool alphabet_;
};

// ---- ByteFallback: runs of <0xNN> cells become text when the whole run is UTF-8, else one U+FFFD
// for each. While a run is open its whole characters are passed on already.
class ByteFallbackDecoder final : public Decoder {
 public:
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next);
  }
  std::string middle(std::string token) const override {
    const auto byte = byte_of_piece(token);
    return byte ? std::string(1, *byte) : token;
  }

 private:
  class Stage final : public WholeCells {
   public:
    using WholeCells::WholeCells;
    void end() override {
      flush();
      next_.end();
    }

   private:
    void work(std::string& cell) override {
      const auto byte = byte_of_piece(cell);
      if (!byte) {
        flush();
        emit(cell);
        return;
      }
      run_ += *byte;
      if (broken_) return;
      const size_t n = utf8::complete_prefix(run_);
      if (n == 0) return;
      if (!unicode::is_valid(std::string_view(run_).substr(0, n))) {
        broken_ = true;  // shown when the run ends, as its length is not known yet
        return;
      }
      next_.append(std::string_view(run_).substr(0, n));
      open_ = true;
      run_.erase(0, n);
    }
    void flush() {
      if (open_) next_.close();
      for (size_t i = 0; i < run_.size(); ++i) emit(kReplacement);
      run_.clear();
      open_ = broken_ = false;
    }
    std::string run_;
    bool open_ = false, broken_ = false;
  };
};

// ---- Replace
class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(std::unique_ptr<Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, *this);
  }
  std::string middle(std::string token) const override { return replaced(token); }

 private:
  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, const ReplaceDecoder& decoder) : WholeCells(next), decoder_(decoder) {}

   private:
    void work(std::string& cell) override { emit(decoder_.replaced(cell)); }
    const ReplaceDecoder& decoder_;
  };
  std::string replaced(std::string_view text) const {
    if (!unicode::is_valid(text)) return std::string(text);
    std::string out;
    MatchWalk walk(*pattern_, text);
    Match m;
    size_t done = 0;
    while (walk.next(m)) {
      out += text.substr(done, m.begin - done);
      out += content_;
      done = m.end;
    }
    out += text.substr(done);
    return out;
  }
  std::unique_ptr<Pattern> pattern_;
  std::string content_;
};

// ---- Fuse: all cells become one.
class FuseDecoder final : public Decoder {
 public:
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next);
  }
  std::string middle(std::string token) const override { return token; }

 private:
  class Stage final : public CellSink {
   public:
    explicit Stage(CellSink& next) : next_(next) {}
    void append(std::string_view part) override { next_.append(part); }
    void close() override {}
    void end() override {
      next_.close();
      next_.end();
    }

   private:
    CellSink& next_;
  };
};

// ---- Strip: drops up to `start` characters `content` in front and up to `stop` behind.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, *this);
  }
  std::string middle(std::string token) const override { return token; }

 private:
  class Stage final : public CellSink {
   public:
    Stage(CellSink& next, const StripDecoder& d) : next_(next), d_(d), to_strip_(d.start_) {}
    void append(std::string_view part) override {
      held_ += part;
      while (to_strip_ > 0 && held_.size() >= d_.content_.size()) {
        if (!held_.starts_with(d_.content_)) {
          to_strip_ = 0;
          break;
        }
        held_.erase(0, d_.content_.size());
        --to_strip_;
      }
      // Parts end at character borders, so something shorter than `content` is another character.
      if (!held_.empty()) to_strip_ = 0;
      size_t end = held_.size();
      for (size_t n = 0; n < d_.stop_ && held_.substr(0, end).ends_with(d_.content_); ++n) {
        end -= d_.content_.size();
      }
      next_.append(std::string_view(held_).substr(0, end));
      held_.erase(0, end);
    }
    void close() override {
      held_.clear();  // at most `stop` characters are held back
      to_strip_ = d_.start_;
      next_.close();
    }
    void end() override { next_.end(); }

   private:
    CellSink& next_;
    const StripDecoder& d_;
    size_t to_strip_;
    std::string held_;
  };
  std::string content_;
  size_t start_, stop_;
};

std::string one_character(const Json& json, std::string_view key, std::string fallback) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return fallback;
  const std::string& text = value->as_string();
  if (!text.empty()) {
    size_t at = 0;
    unicode::next(text, at);
    if (at == text.size()) return text;
  }
  throw Error(Code::InvalidArgument, fmt::format("\"{}\" must be one character", key));
}

size_t count_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  if (value == nullptr || value->is_null()) return 0;
  const int64_t n = value->as_int();
  if (n < 0 || n > (1 << 20)) {
    throw Error(Code::InvalidArgument, fmt::format("\"{}\" is {}", key, n));
  }
  return static_cast<size_t>(n);
}

constexpr int kMaxDepth = 16;

void add_stages(const Json& json, int depth, Decoders& out) {
  if (depth > kMaxDepth) throw Error(Code::InvalidArgument, "sequences are nested too deeply");
  const Json* type_json = json.find("type");
  const std::string type = type_json != nullptr ? type_json->as_string() : "";
  if (type == "Sequence") {
    const Json* list = json.find("decoders");
    if (list == nullptr) throw Error(Code::InvalidArgument, "\"decoders\" is missing");
    for (const Json& part : list->as_array()) add_stages(part, depth + 1, out);
  } else if (type == "ByteLevel") {
    out.add(make_byte_level_decoder());
  } else if (type == "ByteFallback") {
    out.add(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    out.add(make_fuse_decoder());
  } else if (type == "Replace") {
    const Json* pattern = json.find("pattern");
    const Json* content = json.find("content");
    if (pattern == nullptr || content == nullptr) {
      throw Error(Code::InvalidArgument, "Replace needs \"pattern\" and \"content\"");
    }
    out.add(std::make_unique<ReplaceDecoder>(make_pattern(*pattern), content->as_string()));
  } else if (type == "Strip") {
    const std::string content = one_character(json, "content", " ");
    const size_t start = count_of(json, "start");
    if (content == " " && start == 1) out.set_strips_leading_space(true);
    out.add(std::make_unique<StripDecoder>(content, start, count_of(json, "stop")));
  } else {
    add_word_stage(json, type, out);
  }
}

}  // namespace

std::optional<char> byte_of_piece(std::string_view cell) {
  if (cell.size() != 6 || !cell.starts_with("<0x") || cell[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  // Rust's number parser takes a sign.
  const int high = cell[3] == '+' ? 0 : digit(cell[3]), low = digit(cell[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

Decoders Decoders::from_json(const Json* json) {
  Decoders out;
  if (json == nullptr || json->is_null()) {
    out.add(make_join_decoder());
  } else {
    with_context("decoder", [&] { add_stages(*json, 0, out); });
  }
  return out;
}

std::string Decoders::middle(std::string_view token) const {
  std::string text(token);
  for (const auto& stage : stages_) text = stage->middle(std::move(text));
  return text;
}

struct Decoders::Run::Collector final : CellSink {
  void append(std::string_view part) override { text += part; }
  void close() override {}
  void end() override {}
  std::string text;
};

Decoders::Run::Run(const Decoders& decoders) : collector_(std::make_unique<Collector>()) {
  first_ = collector_.get();
  for (size_t i = decoders.stages_.size(); i-- > 0;) {
    stages_.push_back(decoders.stages_[i]->start(*first_));
    first_ = stages_.back().get();
  }
}

Decoders::Run::~Run() = default;

void Decoders::Run::token(std::string_view text, std::string& out) {
  first_->append(text);
  first_->close();
  out += collector_->text;
  collector_->text.clear();
}

void Decoders::Run::finish(std::string& out) {
  first_->end();
  out += collector_->text;
  collector_->text.clear();
}

std::unique_ptr<Decoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>(true);
}
std::unique_ptr<Decoder> make_bytes_decoder() { return std::make_unique<ByteLevelDecoder>(false); }
std::unique_ptr<Decoder> make_byte_fallback_decoder() {
  return std::make_unique<ByteFallbackDecoder>();
}
std::unique_ptr<Decoder> make_replace_decoder(std::string from, std::string to) {
  return std::make_unique<ReplaceDecoder>(compile_literal(from), std::move(to));
}
std::unique_ptr<Decoder> make_strip_decoder(char32_t content, size_t start, size_t stop) {
  std::string text;
  utf8::append(text, content);
  return std::make_unique<StripDecoder>(text, start, stop);
}
std::unique_ptr<Decoder> make_fuse_decoder() { return std::make_unique<FuseDecoder>(); }

}  // namespace mlxcel::text
