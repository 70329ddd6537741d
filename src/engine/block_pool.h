// Which block of a paged cache belongs to whom. Bookkeeping only: no tensors, no device, so that it
// is tested against a plain model of itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mlxcel::engine {

using BlockId = int32_t;
constexpr BlockId kNoBlock = -1;  // a position range that is not held any more (behind a window)

/// Reference-counted blocks with ids [0, capacity). Ids are minted lowest first and reused last in,
/// first out, so that memory touched once keeps being used before new memory is touched.
class BlockPool {
 public:
  explicit BlockPool(int32_t capacity);

  /// A block with reference count 1, or nothing when all are in use.
  std::optional<BlockId> take();
  /// First id of `count` consecutive free blocks, each with reference count 1.
  std::optional<BlockId> take_run(int32_t count);
  /// One more holder. Throws Internal for a free block.
  void share(BlockId id);
  /// One holder less; true when that freed the block. Throws Internal for a free block.
  bool drop(BlockId id);
  /// False: copy before writing.
  bool exclusive(BlockId id) const { return refs(id) == 1; }
  int32_t refs(BlockId id) const;

  int32_t capacity() const { return capacity_; }
  int32_t num_free() const { return capacity_ - num_live_; }
  int32_t num_live() const { return num_live_; }
  /// Ids that were ever in use: the memory that may have been touched.
  int32_t num_minted() const { return static_cast<int32_t>(refs_.size()); }

 private:
  void mint(int32_t count);

  int32_t capacity_;
  int32_t num_live_ = 0;
  std::vector<int32_t> refs_;  // of minted ids
  std::vector<BlockId> free_;  // minted ids with no holder
};

}  // namespace mlxcel::engine
