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
  const std::vector<uint64_t> old_offsets = std::exchange(offsets_, std::vector<uint64_t>(slots));
  mask_ = slots - 1;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].id < 0) continue;
    const std::string_view text{arena_.data() + old_offsets[i], old[i].length};
    size_t at = hash_bytes(text) & mask_;
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = old[i];
    offsets_[at] = old_offsets[i];
  }
}

void Vocab::add(TokenId id, std::string_view text) {
  if (id < 0 || id > kMaxTokenId) {
    throw Error(Code::InvalidArgument,
                fmt::format("token id {} is outside 0..{}", id, kMaxTokenId));
  }
  if (used_ * 2 >= slots_.size()) grow(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t hash = hash_bytes(text);
  const Slot fresh{text.size() <= kInline ? short_key(text).a : hash, id,
                   static_cast<uint32_t>(text.size())};
  size_t at = hash & mask_;
  while (slots_[at].id >= 0 && !(slots_[at].key == fresh.key && slot_text(at) == text)) {
    at = (at + 1) & mask_;
  }
  if (slots_[at].id < 0) {
    slots_[at] = fresh;
    offsets_[at] = arena_.size();
    arena_ += text;
    ++used_;
  } else {
    slots_[at].id = id;
  }
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  entries_[static_cast<size_t>(id)] = {offsets_[at], slots_[at].length};
}

}  // namespace mlxcel::text
