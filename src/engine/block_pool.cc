#include "engine/block_pool.h"

#include <algorithm>

#include "base/error.h"

namespace mlxcel::engine {

BlockPool::BlockPool(int32_t capacity) : capacity_(capacity) {
  MLXCEL_CHECK(capacity >= 0, "a block pool cannot have a negative capacity");
}

void BlockPool::mint(int32_t count) { refs_.resize(refs_.size() + static_cast<size_t>(count), 0); }

std::optional<BlockId> BlockPool::take() {
  BlockId id = kNoBlock;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (num_minted() < capacity_) {
    id = num_minted();
    mint(1);
  } else {
    return std::nullopt;
  }
  refs_[static_cast<size_t>(id)] = 1;
  ++num_live_;
  return id;
}

std::optional<BlockId> BlockPool::take_run(int32_t count) {
  MLXCEL_CHECK(count > 0, "a run holds at least one block");
  if (count > num_free()) return std::nullopt;
  std::sort(free_.begin(), free_.end());
  // The first stretch of consecutive free ids that is long enough; ids not minted yet continue a
  // stretch that reaches the end of the minted ones.
  size_t begin = 0;
  size_t length = 0;
  for (size_t i = 0; i < free_.size() && length < static_cast<size_t>(count); ++i) {
    if (length > 0 && free_[i] == free_[i - 1] + 1) {
      ++length;
    } else {
      begin = i;
      length = 1;
    }
  }
  const bool reaches_end =
      length > 0 && begin + length == free_.size() && free_.back() == num_minted() - 1;
  if (length < static_cast<size_t>(count)) {
    if (!reaches_end) {
      begin = free_.size();
      length = 0;
    }
    const int32_t missing = count - static_cast<int32_t>(length);
    if (num_minted() + missing > capacity_) {
      std::reverse(free_.begin(), free_.end());  // lowest ids are reused first
      return std::nullopt;
    }
    const int32_t first = num_minted();
    mint(missing);
    for (int32_t i = 0; i < missing; ++i) free_.push_back(first + i);
  }
  const BlockId id = free_[begin];
  for (int32_t i = 0; i < count; ++i) refs_[static_cast<size_t>(id + i)] = 1;
  const auto first = free_.begin() + static_cast<std::ptrdiff_t>(begin);
  free_.erase(first, first + count);
  std::reverse(free_.begin(), free_.end());
  num_live_ += count;
  return id;
}

int32_t BlockPool::refs(BlockId id) const {
  MLXCEL_CHECK(id >= 0 && id < num_minted(), "block id out of range");
  return refs_[static_cast<size_t>(id)];
}

void BlockPool::share(BlockId id) {
  MLXCEL_CHECK(refs(id) > 0, "a free block cannot be shared");
  ++refs_[static_cast<size_t>(id)];
}

bool BlockPool::drop(BlockId id) {
  MLXCEL_CHECK(refs(id) > 0, "a free block cannot be dropped");
  if (--refs_[static_cast<size_t>(id)] > 0) return false;
  free_.push_back(id);
  --num_live_;
  return true;
}

}  // namespace mlxcel::engine
