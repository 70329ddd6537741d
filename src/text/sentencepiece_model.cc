#include "text/sentencepiece_model.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "base/error.h"

namespace mlxcel::text {
namespace {

// A reader of Protocol Buffers messages (protobuf.dev, "Encoding").
class Message {
 public:
  Message(std::string_view bytes, size_t offset) : bytes_(bytes), offset_(offset) {}

  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;     // varints
    uint32_t fixed = 0;     // 32-bit values
    std::string_view data;  // strings, bytes and messages
    size_t offset = 0;      // of the data in the file
    int wire = 0;

    bool flag() const { return value != 0; }
    float real() const { return std::bit_cast<float>(fixed); }
  };

  /// The next field; false at the end.
  bool next(Field& field) {
    if (at_ >= bytes_.size()) return false;
    const uint64_t key = varint();
    field = {};
    field.number = key >> 3;
    field.wire = static_cast<int>(key & 7);
    if (field.number == 0) fail("field number 0");
    switch (field.wire) {
      case 0:
        field.value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2: {
        const uint64_t length = varint();
        field.offset = offset_ + at_;
        field.data = take(length);
        break;
      }
      case 5:
        std::memcpy(&field.fixed, take(4).data(), 4);
        break;
      default:
        fail(fmt::format("wire type {}", field.wire));
    }
    return true;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(Code::Corrupt,
                fmt::format("no SentencePiece model: {} at byte {}", what, offset_ + at_));
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) fail("a number is cut off");
      const auto b = static_cast<uint8_t>(bytes_[at_++]);
      value |= uint64_t{b & 0x7FU} << shift;
      if (b < 0x80) return value;
    }
    fail("a number is longer than 64 bits");
  }
  std::string_view take(uint64_t length) {
    if (length > bytes_.size() - at_) {
      fail(fmt::format("a field of {} bytes where {} are left", length, bytes_.size() - at_));
    }
    const std::string_view out = bytes_.substr(at_, static_cast<size_t>(length));
    at_ += static_cast<size_t>(length);
    return out;
  }

  std::string_view bytes_;
  size_t offset_, at_ = 0;
};

SentencePieceModel::Piece read_piece(const Message::Field& message) {
  SentencePieceModel::Piece piece;
  Message m(message.data, message.offset);
  Message::Field f;
  while (m.next(f)) {
    if (f.number == 1 && f.wire == 2) piece.text = f.data;
    if (f.number == 2 && f.wire == 5) piece.score = f.real();
    if (f.number == 3 && f.wire == 0 && f.value >= 1 && f.value <= 6) {
      piece.type = static_cast<PieceType>(f.value);
    }
  }
  return piece;
}

void read_trainer(const Message::Field& message, SentencePieceModel& model) {
  Message m(message.data, message.offset);
  Message::Field f;
  while (m.next(f)) {
    if (f.wire == 0) {
      if (f.number == 3 && f.value >= 1 && f.value <= 4) {
        model.algorithm = static_cast<SentencePieceModel::Algorithm>(f.value);
      }
      if (f.number == 24) model.whitespace_is_suffix = f.flag();
      if (f.number == 35) model.byte_fallback = f.flag();
    } else if (f.wire == 2) {
      if (f.number == 44) model.unk_surface = f.data;
      if (f.number == 46) model.bos_piece = f.data;
      if (f.number == 47) model.eos_piece = f.data;
    }
  }
}

void read_normalizer(const Message::Field& message, SentencePieceModel& model) {
  Message m(message.data, message.offset);
  Message::Field f;
  while (m.next(f)) {
    if (f.number == 2 && f.wire == 2) model.charsmap = f.data;
    if (f.wire != 0) continue;
    if (f.number == 3) model.add_dummy_prefix = f.flag();
    if (f.number == 4) model.remove_extra_whitespaces = f.flag();
    if (f.number == 5) model.escape_whitespaces = f.flag();
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  Message m(bytes, 0);
  Message::Field f;
  while (m.next(f)) {
    if (f.wire != 2) continue;
    if (f.number == 1) model.pieces.push_back(read_piece(f));
    if (f.number == 2) read_trainer(f, model);
    if (f.number == 3) read_normalizer(f, model);
  }
  return model;
}

}  // namespace mlxcel::text
