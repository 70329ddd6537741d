// Decoder stages of vocabularies that mark words.
#include <fmt/core.h>

#include "text/decoder_stages.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

// Undoes the spaces that tokenizing English text leaves behind.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

// A decoder made of a function from (is first cell, cell) to text.
template <class Change>
class CellDecoder final : public Decoder {
 public:
  explicit CellDecoder(Change change) : change_(std::move(change)) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, change_);
  }
  std::string middle(std::string token) const override {
    change_(false, token);
    return token;
  }

 private:
  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, const Change& change) : WholeCells(next), change_(change) {}

   private:
    void work(std::string& cell) override {
      change_(first_, cell);
      first_ = false;
      emit(cell);
    }
    const Change& change_;
    bool first_ = true;
  };
  Change change_;
};

template <class Change>
std::unique_ptr<Decoder> make_cell_decoder(Change change) {
  return std::make_unique<CellDecoder<Change>>(std::move(change));
}

// ---- BPEDecoder: the end-of-word suffix becomes a space, but nothing in the last cell. What
// follows a suffix is therefore held back until the next cell begins.
class SuffixDecoder final : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, suffix_);
  }
  std::string middle(std::string token) const override {
    replace_all(token, suffix_, " ");
    return token;
  }

 private:
  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, const std::string& suffix) : WholeCells(next), suffix_(suffix) {}
    void end() override {
      finish_cell("");
      next_.end();
    }

   private:
    void work(std::string& cell) override {
      finish_cell(" ");
      const size_t at = suffix_.empty() ? std::string::npos : cell.find(suffix_);
      next_.append(std::string_view(cell).substr(0, at));
      if (at != std::string::npos) held_ = cell.substr(at);
      open_ = true;
    }
    void finish_cell(std::string_view replacement) {
      if (!open_) return;
      replace_all(held_, suffix_, replacement);
      next_.append(held_);
      next_.close();
      held_.clear();
      open_ = false;
    }
    const std::string& suffix_;
    std::string held_;
    bool open_ = false;
  };
  std::string suffix_;
};

// ---- CTC: repeated cells count once.
class CtcDecoder final : public Decoder {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, *this);
  }
  std::string middle(std::string token) const override {
    change(token);
    return token;
  }

 private:
  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, const CtcDecoder& d) : WholeCells(next), d_(d) {}

   private:
    void work(std::string& cell) override {
      if (has_last_ && cell == last_) return;
      has_last_ = true;
      last_ = cell;
      d_.change(cell);
      if (!cell.empty()) emit(cell);
    }
    const CtcDecoder& d_;
    std::string last_;
    bool has_last_ = false;
  };
  void change(std::string& cell) const {
    replace_all(cell, pad_, "");
    if (!cleanup_) return;
    clean_up(cell);
    replace_all(cell, delimiter_, " ");
  }
  std::string pad_, delimiter_;
  bool cleanup_;
};

std::string text_or(const Json& json, std::string_view key, std::string_view fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? std::string(fallback) : value->as_string();
}

bool flag_or(const Json& json, std::string_view key, bool fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_bool();
}

std::unique_ptr<Decoder> make_metaspace(std::string mark, bool strips_first) {
  return make_cell_decoder([mark = std::move(mark), strips_first](bool first, std::string& cell) {
    replace_all(cell, mark, first && strips_first ? "" : " ");
  });
}

std::unique_ptr<Decoder> make_word_piece(std::string prefix, bool cleanup) {
  return make_cell_decoder([prefix = std::move(prefix), cleanup](bool first, std::string& cell) {
    if (!first) {
      if (cell.starts_with(prefix)) {
        cell.erase(0, prefix.size());
      } else {
        cell.insert(0, " ");
      }
    }
    if (cleanup) clean_up(cell);
  });
}

}  // namespace

void add_word_stage(const Json& json, std::string_view type, Decoders& out) {
  if (type == "Metaspace") {
    const bool strips = text_or(json, "prepend_scheme", "always") != "never" &&
                        flag_or(json, "add_prefix_space", true);
    out.set_strips_leading_space(strips);
    out.add(make_metaspace(text_or(json, "replacement", "▁"), strips));
  } else if (type == "WordPiece") {
    out.add(make_word_piece(text_or(json, "prefix", "##"), flag_or(json, "cleanup", true)));
  } else if (type == "BPEDecoder") {
    out.add(std::make_unique<SuffixDecoder>(text_or(json, "suffix", "</w>")));
  } else if (type == "CTC") {
    out.add(std::make_unique<CtcDecoder>(text_or(json, "pad_token", "<pad>"),
                                         text_or(json, "word_delimiter_token", "|"),
                                         flag_or(json, "cleanup", true)));
  } else {
    throw Error(Code::Unsupported, fmt::format("unknown decoder \"{}\"", type));
  }
}

std::unique_ptr<Decoder> make_join_decoder() {
  return make_cell_decoder([](bool first, std::string& cell) {
    if (!first) cell.insert(0, " ");
  });
}

}  // namespace mlxcel::text
