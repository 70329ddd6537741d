// A read-only memory-mapped file with bounds-checked views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mlxcel {

/// One mapped file. The mapping lives as long as any shared_ptr to it.
class MappedFile {
 public:
  /// Maps `path` read-only. Throws NotFound or InvalidArgument (not a regular file) with the
  /// system's reason.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  /// Bytes [offset, offset + length). Throws Corrupt naming the file when that leaves the file.
  std::span<const std::byte> view(uint64_t offset, uint64_t length) const;
  /// Tells the kernel that these resident pages are no longer needed (they can be read again from
  /// disk).
  void release(std::span<const std::byte> range) const noexcept;
  /// Tells the kernel that this range will be read soon.
  void prefetch(std::span<const std::byte> range) const noexcept;

 private:
  MappedFile(std::string path, const std::byte* data, uint64_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace mlxcel
