// Tokenizers from SentencePiece models (github.com/google/sentencepiece).
#include <fmt/core.h>

#include <limits>

#include "base/utf8.h"
#include "text/decoder_stages.h"
#include "text/sentencepiece_bpe.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer_pipeline.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

class SentencePieceText final : public Normalizer {
 public:
  explicit SentencePieceText(SentencePieceNormalizer normalizer)
      : normalizer_(std::move(normalizer)) {}
  void apply(NormalizedText& text) const override { text.text = normalizer_.apply(text.text); }

 private:
  SentencePieceNormalizer normalizer_;
};

struct DecodeRules {
  bool strip_first = true;  // the space mark of the first piece
  bool strip_all = true;    // and of the following ones while there is no text
  bool byte_pieces = false;
};

// Pieces to text: marks become spaces, byte pieces characters, each broken byte U+FFFD.
class PieceDecoder final : public Decoder {
 public:
  explicit PieceDecoder(DecodeRules rules) : rules_(rules) {}
  std::unique_ptr<CellSink> start(CellSink& next) const override {
    return std::make_unique<Stage>(next, rules_);
  }
  std::string middle(std::string token) const override {
    if (const auto byte = byte_of_piece(token); byte && rules_.byte_pieces) {
      return std::string(1, *byte);
    }
    return spaced(token);
  }

 private:
  static std::string spaced(std::string_view piece) {
    std::string out;
    for (size_t at = piece.find(kSpaceMark); at != std::string_view::npos;
         at = piece.find(kSpaceMark)) {
      out += piece.substr(0, at);
      out += ' ';
      piece.remove_prefix(at + kSpaceMark.size());
    }
    out += piece;
    return out;
  }

  class Stage final : public WholeCells {
   public:
    Stage(CellSink& next, const DecodeRules& rules) : WholeCells(next), rules_(rules) {}
    void end() override {
      write_bytes(bytes_.size());
      next_.close();
      next_.end();
    }

   private:
    void work(std::string& cell) override {
      const auto byte = byte_of_piece(cell);
      if (byte && rules_.byte_pieces) {
        bytes_ += *byte;
        write_bytes(utf8::complete_prefix(bytes_));
        return;
      }
      write_bytes(bytes_.size());
      if (has_text_ || stripped_) at_start_ = false;
      std::string_view piece = cell;
      if (at_start_ && rules_.strip_first && piece.starts_with(kSpaceMark)) {
        piece.remove_prefix(kSpaceMark.size());
        stripped_ = !rules_.strip_all;
      }
      write(spaced(piece));
    }
    void write(std::string_view text) {
      if (text.empty()) return;
      has_text_ = true;
      next_.append(text);
    }
    void write_bytes(size_t count) {
      std::string out;
      for (std::string_view rest = std::string_view(bytes_).substr(0, count); !rest.empty();) {
        const utf8::Decoded d = utf8::decode(rest);
        const size_t n = d.valid ? static_cast<size_t>(d.length) : 1;
        out += d.valid ? rest.substr(0, n) : "\uFFFD";
        rest.remove_prefix(n);
      }
      bytes_.erase(0, count);
      write(out);
    }

    const DecodeRules& rules_;
    std::string bytes_;
    bool at_start_ = true, has_text_ = false, stripped_ = false;
  };

  DecodeRules rules_;
};

TokenId add_pieces(const SentencePieceModel& model, Vocab& vocab, TokenizerParts& parts) {
  TokenId unk = -1;
  vocab.reserve(model.pieces.size());
  if (model.pieces.empty()) throw Error(Code::InvalidArgument, "the model has no pieces");
  if (model.pieces.size() > static_cast<size_t>(kMaxTokenId)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("{} pieces are too many", model.pieces.size()));
  }
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.text.empty()) throw Error(Code::InvalidArgument, fmt::format("piece {} is empty", i));
    if (!unicode::is_valid(piece.text)) {
      throw Error(Code::InvalidArgument, fmt::format("piece {} is not valid UTF-8", i));
    }
    vocab.add(id, piece.text);
    if (piece.type != PieceType::Unknown && piece.type != PieceType::Control) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = id;
    token.special = true;
    parts.added.add(token, token.content);
    parts.added_tokens.push_back(std::move(token));
    if (piece.type == PieceType::Unknown) {
      unk = id;
      parts.decode_texts.emplace_back(id, model.unk_surface);
    }
  }
  if (unk < 0) throw Error(Code::InvalidArgument, "the model has no unknown piece");
  return unk;
}

std::unique_ptr<Normalizer> make_text_normalizer(const SentencePieceModel& model) {
  SentencePieceNormalizer normalizer;
  normalizer.map = CharsMap(model.charsmap);
  normalizer.add_dummy_prefix = model.add_dummy_prefix;
  normalizer.remove_extra_whitespaces = model.remove_extra_whitespaces;
  normalizer.escape_whitespaces = model.escape_whitespaces;
  normalizer.whitespace_is_suffix = model.whitespace_is_suffix;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type == PieceType::UserDefined) normalizer.verbatim.add(piece.text, 0);
  }
  return std::make_unique<SentencePieceText>(std::move(normalizer));
}

TokenizerParts make_parts(const SentencePieceModel& model) {
  TokenizerParts parts;
  auto vocab = std::make_shared<Vocab>();
  const TokenId unk = add_pieces(model, *vocab, parts);
  std::vector<PieceType> types;
  std::vector<float> scores;
  for (const auto& piece : model.pieces) {
    types.push_back(piece.type);
    scores.push_back(piece.score);
  }
  const auto id_of = [&](const std::string& name) -> std::optional<TokenId> {
    const TokenId id = vocab->find(name);
    return id >= 0 && types[static_cast<size_t>(id)] == PieceType::Control ? std::optional(id)
                                                                           : std::nullopt;
  };
  parts.bos = id_of(model.bos_piece);
  parts.eos = id_of(model.eos_piece);
  if (parts.bos) {
    parts.layout = {*parts.bos, kSequencePlace};
  } else if (parts.eos) {
    parts.layout = {kSequencePlace, *parts.eos};
  }
  if (model.algorithm == SentencePieceModel::Algorithm::Bpe) {
    SentencePieceBpeOptions options{std::move(types), unk, model.byte_fallback, true, false};
    parts.model = std::make_unique<SentencePieceBpe>(vocab, std::move(scores), std::move(options));
  } else if (model.algorithm == SentencePieceModel::Algorithm::Unigram) {
    UnigramOptions options;
    options.unk = unk;
    options.byte_fallback = model.byte_fallback;
    options.flavor = UnigramOptions::Flavor::SentencePiece;
    options.types = std::move(types);
    parts.model = std::make_unique<Unigram>(
        vocab, std::vector<double>(scores.begin(), scores.end()), std::move(options));
  } else {
    throw Error(Code::Unsupported, "only BPE and Unigram SentencePiece models can be used");
  }
  parts.ill_formed = IllFormed::ReplaceEachByte;
  parts.normalizer = make_text_normalizer(model);
  const DecodeRules rules{model.add_dummy_prefix || model.remove_extra_whitespaces,
                          model.remove_extra_whitespaces, model.byte_fallback};
  parts.decoders.add(std::make_unique<PieceDecoder>(rules));
  parts.decoders.set_strips_leading_space(rules.strip_first);
  return parts;
}

}  // namespace

std::unique_ptr<PipelineTokenizer> read_sentencepiece(std::string_view bytes) {
  return std::make_unique<PipelineTokenizer>(make_parts(read_sentencepiece_model(bytes)));
}

Result<std::unique_ptr<Tokenizer>> parse_sentencepiece(std::string_view protobuf) {
  try {
    return std::unique_ptr<Tokenizer>(
        with_context("SentencePiece model", [&] { return read_sentencepiece(protobuf); }));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text
