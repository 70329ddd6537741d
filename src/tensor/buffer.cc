#include "tensor/buffer.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "base/error.h"

namespace mlxcel {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxCachedBlock = int64_t{64}
                                    << 20;  // larger blocks go back to the system at once
constexpr int64_t kMaxCachedBytes = int64_t{256} << 20;

// Rounds up to one of four sizes per power of two, so that freed blocks fit later requests of
// similar size.
int64_t size_class(int64_t bytes) {
  bytes = std::max<int64_t>(bytes, kAlignment);
  const auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)) / 4);
  const int64_t granule = std::max(step, kAlignment);
  return (bytes + granule - 1) / granule * granule;
}

class HostAllocator {
 public:
  void* take(int64_t size) {
    {
      const std::lock_guard lock(mutex_);
      stats_.live_bytes += size;
      stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
      const auto it = free_.find(size);
      if (it != free_.end() && !it->second.empty()) {
        void* data = it->second.back();
        it->second.pop_back();
        stats_.cached_bytes -= size;
        return data;
      }
    }
    void* data = std::aligned_alloc(kAlignment, static_cast<size_t>(size));
    if (data == nullptr) {
      const std::lock_guard lock(mutex_);
      stats_.live_bytes -= size;
      throw Error(Code::ResourceExhausted,
                  fmt::format("out of memory: cannot allocate {} bytes", size));
    }
    return data;
  }

  void give(void* data, int64_t size) noexcept {
    {
      const std::lock_guard lock(mutex_);
      stats_.live_bytes -= size;
      if (size <= kMaxCachedBlock && stats_.cached_bytes + size <= kMaxCachedBytes) {
        try {
          free_[size].push_back(data);
          stats_.cached_bytes += size;
          return;
        } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
          // No room for the bookkeeping: the block is freed instead.
        }
      }
    }
    std::free(data);
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* data : blocks) std::free(data);
    }
    free_.clear();
    stats_.cached_bytes = 0;
  }

  Buffer::Stats stats() {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  std::mutex mutex_;  // guards everything below
  std::map<int64_t, std::vector<void*>> free_;
  Buffer::Stats stats_;
};

// Never destroyed: buffers held by other statics may be released after main.
HostAllocator& allocator() {
  static auto* instance = new HostAllocator;
  return *instance;
}

}  // namespace

std::shared_ptr<Buffer> Buffer::host(int64_t bytes) {
  if (bytes < 0 || bytes > (int64_t{1} << 46)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("an allocation of {} bytes is not possible", bytes));
  }
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = allocator().take(size_class(bytes));
  buffer->size_ = bytes;
  buffer->release_ = [](void* data, void* context) {
    allocator().give(data, static_cast<int64_t>(reinterpret_cast<intptr_t>(context)));
  };
  buffer->release_context_ = reinterpret_cast<void*>(static_cast<intptr_t>(size_class(bytes)));
  return buffer;
}

std::shared_ptr<Buffer> Buffer::borrow(std::span<const std::byte> bytes,
                                       std::shared_ptr<const void> keep_alive) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = const_cast<std::byte*>(bytes.data());
  buffer->size_ = static_cast<int64_t>(bytes.size());
  buffer->writable_ = false;
  buffer->keep_alive_ = std::move(keep_alive);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::adopt(void* data, int64_t bytes, Device device,
                                      void (*release)(void*, void*), void* context) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = data;
  buffer->size_ = bytes;
  buffer->device_ = device;
  buffer->release_ = release;
  buffer->release_context_ = context;
  return buffer;
}

Buffer::~Buffer() {
  if (release_ != nullptr) release_(data_, release_context_);
}

Buffer::Stats Buffer::host_stats() { return allocator().stats(); }
void Buffer::trim_host_cache() { allocator().trim(); }

}  // namespace mlxcel
