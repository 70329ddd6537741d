// Shared by the files that implement decoder stages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/decoder.h"

namespace mlxcel::text {

// Collects a cell and hands it on whole, changed by `work`.
class WholeCells : public CellSink {
 public:
  explicit WholeCells(CellSink& next) : next_(next) {}
  void append(std::string_view part) override { cell_ += part; }
  void close() override {
    work(cell_);
    cell_.clear();
  }
  void end() override { next_.end(); }

 protected:
  virtual void work(std::string& cell) = 0;
  void emit(std::string_view cell) {
    next_.append(cell);
    next_.close();
  }
  CellSink& next_;

 private:
  std::string cell_;
};

/// The byte that a token of the form <0xNN> stands for.
std::optional<char> byte_of_piece(std::string_view cell);

/// WordPiece, Metaspace, BPEDecoder and CTC. Throws Unsupported for another type.
void add_word_stage(const Json& json, std::string_view type, Decoders& out);
/// Joins cells with spaces: what happens without a decoder.
std::unique_ptr<Decoder> make_join_decoder();

}  // namespace mlxcel::text
