#include "text/tokenizer_pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/utf8.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Bytes that are no UTF-8 pass the text stages as the last 128 characters of the private plane 16.
constexpr char32_t kEscape = 0x10FF80;

std::string escape_bytes(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  while (!text.empty()) {
    const utf8::Decoded d = utf8::decode(text);
    const auto n = static_cast<size_t>(d.length);
    if (d.valid && d.code_point < kEscape) {
      out += text.substr(0, n);
    } else {
      for (const char c : text.substr(0, n)) {
        utf8::append(out, kEscape + (static_cast<uint8_t>(c) & 0x7FU));
      }
    }
    text.remove_prefix(n);
  }
  return out;
}

void unescape_bytes(std::string_view text, std::string& out) {
  out.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = unicode::next(text, at);
    if (c >= kEscape) {
      out += static_cast<char>(0x80 + (c - kEscape));
    } else {
      out += text.substr(begin, at - begin);
    }
  }
}

std::string replace_each_byte(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 3 / 2);
  while (!text.empty()) {
    const utf8::Decoded d = utf8::decode(text);
    const size_t n = d.valid ? static_cast<size_t>(d.length) : 1;
    out += d.valid ? text.substr(0, n) : "\uFFFD";
    text.remove_prefix(n);
  }
  return out;
}

// The ids of short pieces seen before in this text: most words of a text repeat. Direct-mapped.
class PieceCache {
 public:
  explicit PieceCache(size_t text_bytes) {
    if (text_bytes >= kWorthwhile) cells_.resize(kCells);
  }
  /// Appends the ids of a piece, from memory if it is there.
  void encode(std::string_view piece, const TokenModel& model, EncodeScratch& scratch,
              std::vector<TokenId>& out) {
    if (cells_.empty() || piece.size() > 16) return model.encode(piece, scratch, out);
    const ShortKey key = short_key(piece);
    Cell& cell = cells_[hash_key(key, piece.size()) >> (64 - kBits)];
    if (cell.key.a == key.a && cell.key.b == key.b && cell.length == piece.size()) {
      out.insert(out.end(), cell.ids.begin(), cell.ids.begin() + cell.count);
      return;
    }
    const size_t before = out.size();
    model.encode(piece, scratch, out);
    const size_t count = out.size() - before;
    if (count > cell.ids.size()) return;
    cell.key = key;
    cell.length = static_cast<uint8_t>(piece.size());
    cell.count = static_cast<uint8_t>(count);
    std::copy(out.end() - static_cast<ptrdiff_t>(count), out.end(), cell.ids.begin());
  }

 private:
  static constexpr unsigned kBits = 11;
  static constexpr size_t kCells = size_t{1} << kBits, kWorthwhile = 4096;
  struct Cell {
    ShortKey key;
    std::array<TokenId, 5> ids{};
    uint8_t length = 0, count = 0;  // a piece has at least one byte
  };
  std::vector<Cell> cells_;
};

class ModelSink final : public PieceSink {
 public:
  ModelSink(const TokenModel& model, size_t text_bytes, std::vector<TokenId>& out, bool escaped)
      : model_(model), cache_(text_bytes), out_(out), escaped_(escaped) {}
  void piece(const Piece& piece) override {
    if (piece.text.empty()) return;
    if (escaped_) {
      unescape_bytes(piece.text, raw_);
      model_.encode(raw_, scratch_, out_);
    } else {
      cache_.encode(piece.text, model_, scratch_, out_);
    }
  }

 private:
  const TokenModel& model_;
  PieceCache cache_;
  EncodeScratch scratch_;
  std::vector<TokenId>& out_;
  bool escaped_;
  std::string raw_;
};

}  // namespace

class PipelineTokenizer::Stream final : public TokenStream {
 public:
  Stream(const PipelineTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_(skip_special), run_(tokenizer.parts_.decoders) {}
  void push(TokenId id, std::string& out) override {
    const std::string_view text = tokenizer_.decode_text(id);
    if (text.data() == nullptr || (skip_ && tokenizer_.is_special(id))) return;
    run_.token(text, out);
  }
  void finish(std::string& out) override { run_.finish(out); }

 private:
  const PipelineTokenizer& tokenizer_;
  bool skip_;
  Decoders::Run run_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  size_ = parts_.model->vocab().size();
  for (const AddedToken& token : parts_.added_tokens) added_vocab_.add(token.id, token.content);
  for (const auto& [id, text] : parts_.decode_texts) added_vocab_.add(id, text);
  size_ = std::max(size_, added_vocab_.size());
  special_.resize(static_cast<size_t>(size_));
  mark_special();
}

// Special is every id whose text is that of a special token, as in the reference.
void PipelineTokenizer::mark_special() {
  std::unordered_set<std::string_view> texts;
  for (const AddedToken& token : parts_.added_tokens) {
    if (token.special) texts.insert(token.content);
  }
  const auto mark = [&](TokenId id) {
    if (id >= 0) special_[static_cast<size_t>(id)] = texts.contains(decode_text(id));
  };
  const Vocab& vocab = parts_.model->vocab();
  if (vocab.one_to_one()) {
    for (TokenId id = 0; id < added_vocab_.size(); ++id) {
      if (added_vocab_.contains(id)) mark(id);
    }
    for (const std::string_view text : texts) mark(vocab.find(text));
  } else {
    for (TokenId id = 0; id < size_; ++id) mark(id);
  }
}

std::string_view PipelineTokenizer::decode_text(TokenId id) const {
  if (added_vocab_.contains(id)) return added_vocab_.text(id);
  const Vocab& vocab = parts_.model->vocab();
  return vocab.contains(id) ? vocab.text(id) : std::string_view();
}

void PipelineTokenizer::encode_text(std::string_view text, bool escaped,
                                    const EncodeOptions& options, std::vector<TokenId>& out) const {
  ModelSink sink(*parts_.model, text.size(), out, escaped);
  std::vector<TextPart> parts, inner;
  parts_.added.split(text, options.parse_special_tokens, parts);
  NormalizedText normalized;
  for (const TextPart& part : parts) {
    if (part.id >= 0) {
      out.push_back(part.id);
      continue;
    }
    std::string_view segment = text.substr(part.begin, part.end - part.begin);
    bool at_origin = part.begin == 0;
    if (parts_.normalizer) {
      normalized.text = segment;
      normalized.at_origin = at_origin;
      parts_.normalizer->apply(normalized);
      segment = normalized.text;
      at_origin = normalized.at_origin;
    }
    inner.clear();
    parts_.added_normalized.split(segment, options.parse_special_tokens, inner);
    for (const TextPart& piece : inner) {
      if (piece.id >= 0) {
        out.push_back(piece.id);
      } else {
        parts_.pre_tokenizers.run(
            {segment.substr(piece.begin, piece.end - piece.begin), at_origin && piece.begin == 0},
            sink);
      }
    }
  }
}

std::vector<TokenId> PipelineTokenizer::encode(std::string_view utf8,
                                               const EncodeOptions& options) const {
  if (utf8.size() > kMaxTextBytes) {
    throw Error(Code::ResourceExhausted,
                fmt::format("a text of {} bytes is more than the {} that can be tokenized at once",
                            utf8.size(), kMaxTextBytes));
  }
  const RegexBudget budget(utf8.size());
  std::string repaired;
  bool escaped = false;
  if (!unicode::is_valid(utf8)) {
    escaped = parts_.ill_formed == IllFormed::Pass;
    repaired = escaped                                   ? escape_bytes(utf8)
               : parts_.ill_formed == IllFormed::Replace ? utf8::repair(utf8)
                                                         : replace_each_byte(utf8);
    utf8 = repaired;
  }
  std::vector<TokenId> out;
  out.reserve(utf8.size() / 4 + 8);
  if (!options.add_special_tokens) {
    encode_text(utf8, escaped, options, out);
    return out;
  }
  for (const TokenId id : parts_.layout) {
    if (id == kSequencePlace) {
      encode_text(utf8, escaped, options, out);
    } else {
      out.push_back(id);
    }
  }
  return out;
}

std::string PipelineTokenizer::decode(std::span<const TokenId> ids,
                                      bool skip_special_tokens) const {
  Stream stream(*this, skip_special_tokens);
  std::string out;
  for (const TokenId id : ids) stream.push(id, out);
  stream.finish(out);
  return out;
}

std::unique_ptr<TokenStream> PipelineTokenizer::stream(bool skip_special) const {
  return std::make_unique<Stream>(*this, skip_special);
}

std::string_view PipelineTokenizer::bytes(TokenId id) const {
  if (id < 0 || id >= size_) return {};
  std::call_once(bytes_once_, [&] {
    bytes_begin_.reserve(static_cast<size_t>(size_) + 1);
    for (TokenId i = 0; i < size_; ++i) {
      bytes_begin_.push_back(bytes_arena_.size());
      const std::string_view text = decode_text(i);
      if (text.empty()) continue;
      if (is_special(i)) {
        bytes_arena_ += token(i);
      } else {
        bytes_arena_ += parts_.decoders.middle(text);
      }
    }
    bytes_begin_.push_back(bytes_arena_.size());
  });
  const auto at = static_cast<size_t>(id);
  return std::string_view(bytes_arena_)
      .substr(bytes_begin_[at], bytes_begin_[at + 1] - bytes_begin_[at]);
}

std::string_view PipelineTokenizer::token(TokenId id) const { return decode_text(id); }

std::optional<TokenId> PipelineTokenizer::id_of(std::string_view token) const {
  TokenId id = added_vocab_.find(token);
  if (id < 0) id = parts_.model->vocab().find(token);
  if (id < 0) return std::nullopt;
  return id;
}

bool PipelineTokenizer::is_special(TokenId id) const {
  return id >= 0 && id < size_ && special_[static_cast<size_t>(id)];
}

}  // namespace mlxcel::text
