// Device memory from a cache. Blocks are reused in stream order: what was given back by the host is
// free for the launches that come after.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace mlxcel::cuda {

class Allocator {
 public:
  struct Block {
    void* data = nullptr;
    int64_t size = 0;
    bool for_graphs = false;
  };

  /// Throws ResourceExhausted, after giving cached blocks back to the driver.
  Block* take(int64_t bytes);
  void give(Block* block) noexcept;
  /// While set, blocks come from and return to a store that only recorded graphs use: a replay
  /// would otherwise write to memory that something else holds by then.
  void set_recording(bool recording);
  int64_t cached_bytes();

 private:
  using Store = std::map<int64_t, std::vector<Block*>>;
  bool release_cached();

  std::mutex mutex_;  // guards everything below
  Store eager_, graphs_;
  bool recording_ = false;
  int64_t cached_bytes_ = 0;  // of eager_
};

}  // namespace mlxcel::cuda
