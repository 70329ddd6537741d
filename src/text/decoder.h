// Turning ids back into text (huggingface.co/docs/tokenizers, "Decoders"): a chain of stages
// through which the texts of the tokens stream, so that the parts of a text can be shown as they
// arrive.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mlxcel::text {

/// Receives a sequence of strings ("cells": at first one a token), each in one or more parts.
class CellSink {
 public:
  virtual ~CellSink() = default;
  virtual void append(std::string_view part) = 0;  // to the current cell
  virtual void close() = 0;                        // ends the current cell
  virtual void end() = 0;                          // no more cells; once
};

/// One kind of decoding. Immutable, thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// A running stage that writes to `next`, which outlives it.
  virtual std::unique_ptr<CellSink> start(CellSink& next) const = 0;
  /// What the stage makes of a token in the middle of a text, as raw bytes.
  virtual std::string middle(std::string token) const = 0;
};

/// The stages of a decoder in order.
class Decoders {
 public:
  /// Reads the decoder member of tokenizer.json; null joins tokens with spaces. Throws
  /// InvalidArgument.
  static Decoders from_json(const Json* json);
  void add(std::unique_ptr<Decoder> stage) { stages_.push_back(std::move(stage)); }
  std::string middle(std::string_view token) const;
  /// True when the first space of a text is dropped.
  bool strips_leading_space() const { return strips_leading_space_; }
  void set_strips_leading_space(bool value) { strips_leading_space_ = value; }

  /// A running chain; text that is final is handed out as soon as it is known.
  class Run {
   public:
    explicit Run(const Decoders& decoders);
    ~Run();
    /// Adds a token's text and appends what is certain now to `out`.
    void token(std::string_view text, std::string& out);
    void finish(std::string& out);

   private:
    struct Collector;
    std::unique_ptr<Collector> collector_;
    std::vector<std::unique_ptr<CellSink>> stages_;  // last stage first
    CellSink* first_;
  };

 private:
  std::vector<std::unique_ptr<Decoder>> stages_;
  bool strips_leading_space_ = false;
};

// The stages other formats than tokenizer.json need.
std::unique_ptr<Decoder> make_byte_level_decoder();
std::unique_ptr<Decoder> make_byte_fallback_decoder();
std::unique_ptr<Decoder> make_replace_decoder(std::string from, std::string to);
std::unique_ptr<Decoder> make_strip_decoder(char32_t content, size_t start, size_t stop);
std::unique_ptr<Decoder> make_fuse_decoder();
/// Cells are bytes already; broken UTF-8 becomes U+FFFD.
std::unique_ptr<Decoder> make_bytes_decoder();

}  // namespace mlxcel::text
