#include "text/tokenizer_vocab.h"

#include <fmt/core.h>

#include <bit>

namespace mlxcel::text {

void Vocab::reserve(size_t count) {
  entries_.reserve(count);
  arena_.reserve(count * 8);
  const size_t slots = std::bit_ceil(std::max<size_t>(16, count * 2));
  if (slots > slots_.size()) grow(slots);
}

void Vocab::grow(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  mask_ = slots - 1;
  for (const Slot& s : old) {
    if (s.id < 0) continue;
    size_t at = hash_bytes(slot_text(s)) & mask_;
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = s;
  }
}

void Vocab::add(TokenId id, std::string_view text) {
  if (id < 0 || id > kMaxTokenId) {
    throw Error(Code::InvalidArgument,
                fmt::format("token id {} is outside 0..{}", id, kMaxTokenId));
  }
  if (used_ * 2 >= slots_.size()) grow(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t h = hash_bytes(text);
  const auto tag = static_cast<uint32_t>(h >> 32);
  size_t at = h & mask_;
  while (slots_[at].id >= 0 && !(slots_[at].tag == tag && slot_text(slots_[at]) == text)) {
    at = (at + 1) & mask_;
  }
  Slot& slot = slots_[at];
  if (slot.id < 0) {
    slot = {tag, id, arena_.size(), static_cast<uint32_t>(text.size())};
    arena_ += text;
    ++used_;
  } else {
    slot.id = id;
  }
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[static_cast<size_t>(id)] = {slot.offset, slot.length};
}

}  // namespace mlxcel::text
