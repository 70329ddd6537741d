// One allocation and how to release it: host memory or a slice of a mapped file. Host blocks come
// from a caching allocator, so that a step in steady state makes no system calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mlxcel {

enum class DeviceKind : uint8_t { Cpu, Cuda };
struct Device {
  DeviceKind kind = DeviceKind::Cpu;
  int16_t index = 0;
  bool operator==(const Device&) const = default;
};

class Buffer {
 public:
  /// `bytes` of uninitialized host memory, 64-byte aligned. Throws ResourceExhausted.
  static std::shared_ptr<Buffer> host(int64_t bytes);
  /// Memory owned by `keep_alive`, for example a view of a mapped file. Never written to.
  static std::shared_ptr<Buffer> borrow(std::span<const std::byte> bytes,
                                        std::shared_ptr<const void> keep_alive);
  /// Memory of another device, freed by `release(data, context)`.
  static std::shared_ptr<Buffer> adopt(void* data, int64_t bytes, Device device,
                                       void (*release)(void*, void*), void* context);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() { return data_; }
  const void* data() const { return data_; }
  int64_t size() const { return size_; }
  Device device() const { return device_; }
  bool writable() const { return writable_; }

  struct Stats {
    int64_t live_bytes = 0, cached_bytes = 0, peak_live_bytes = 0;
  };
  static Stats host_stats();
  /// Returns cached free host blocks to the system.
  static void trim_host_cache();

 private:
  Buffer() = default;
  void* data_ = nullptr;
  int64_t size_ = 0;
  Device device_{};
  bool writable_ = true;
  void (*release_)(void*, void*) = nullptr;
  void* release_context_ = nullptr;
  std::shared_ptr<const void> keep_alive_;
};

}  // namespace mlxcel
