// SentencePiece model files: the fields of sentencepiece_model.proto that inference needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/unigram.h"

namespace mlxcel::text {

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::Normal;
  };
  enum class Algorithm : uint8_t { Unigram = 1, Bpe = 2, Word = 3, Char = 4 };

  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::Unigram;
  bool byte_fallback = false;
  bool whitespace_is_suffix = false;
  std::string bos_piece = "<s>", eos_piece = "</s>", unk_surface = " \u2047 ";
  std::string charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

/// Reads the bytes of a .model file. Throws Corrupt naming the byte where the message breaks.
SentencePieceModel read_sentencepiece_model(std::string_view bytes);

}  // namespace mlxcel::text
