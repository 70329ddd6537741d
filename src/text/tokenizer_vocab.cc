#include "text/tokenizer_vocab.h"

#include <fmt/core.h>

#include <bit>

namespace mlxcel::text {

void Vocab::reserve(size_t count) {
  entries_.reserve(count);
  arena_.reserve(count * 8);
  const size_t slots = std::bit_ceil(std::max<size_t>(16, count + count / 2));
  if (slots > slots_.size()) grow(slots);
}

void Vocab::grow(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  const std::vector<uint64_t> old_offsets = std::exchange(offsets_, std::vector<uint64_t>(slots));
  mask_ = slots - 1;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].id < 0) continue;
    const bool is_long = old[i].length > kInline;
    size_t at = (is_long ? old[i].key : hash_key({old[i].key, 0}, old[i].length)) & mask_;
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = old[i];
    if (is_long) offsets_[at] = old_offsets[i];
  }
}

void Vocab::add(TokenId id, std::string_view text, uint64_t hash) {
  if (id < 0 || id > kMaxTokenId) {
    throw Error(Code::InvalidArgument,
                fmt::format("token id {} is outside 0..{}", id, kMaxTokenId));
  }
  if (used_ * 3 >= slots_.size() * 2) grow(std::max<size_t>(16, slots_.size() * 2));
  const bool is_long = text.size() > kInline;
  const Slot fresh{is_long ? hash : short_key(text).a, id, static_cast<uint32_t>(text.size())};
  const auto same = [&](size_t at) {
    return slots_[at].key == fresh.key && slots_[at].length == fresh.length &&
           (!is_long || slot_text(at) == text);
  };
  size_t at = hash & mask_;
  while (slots_[at].id >= 0 && !same(at)) at = (at + 1) & mask_;
  const bool is_new = slots_[at].id < 0;
  if (is_new) ++used_;
  slots_[at] = fresh;
  uint64_t offset = arena_.size();
  if (is_long && !is_new) {
    offset = offsets_[at];
  } else {
    arena_ += text;
    if (is_long) offsets_[at] = offset;
  }
  if (id >= size()) entries_.resize(static_cast<size_t>(id) + 1);
  Entry& entry = entries_[static_cast<size_t>(id)];
  if (entry.length == kAbsent) ++ids_;
  entry = {offset, fresh.length};
}

}  // namespace mlxcel::text
