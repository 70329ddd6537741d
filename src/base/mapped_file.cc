#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace mlxcel {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason() { return std::strerror(errno); }

void advise_inside(std::span<const std::byte> range, int advice) noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(range.data());
  const size_t skip = (page - address % page) % page;
  if (range.size() < skip + page) return;
  const size_t whole_pages = (range.size() - skip) / page * page;
  ::madvise(const_cast<std::byte*>(range.data()) + skip, whole_pages, advice);
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw Error(Code::NotFound, fmt::format("cannot open {}: {}", path, reason()));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) {
    throw Error(Code::NotFound, fmt::format("cannot read {}: {}", path, reason()));
  }
  if (!S_ISREG(st.st_mode)) {
    throw Error(Code::InvalidArgument, fmt::format("{} is not a regular file", path));
  }
  const auto size = static_cast<uint64_t>(st.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) {
      throw Error(Code::ResourceExhausted, fmt::format("cannot map {}: {}", path, reason()));
    }
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
}

std::span<const std::byte> MappedFile::view(uint64_t offset, uint64_t length) const {
  if (offset > size_ || length > size_ - offset) {
    throw Error(Code::Corrupt,
                fmt::format("{}: bytes [{}, {} + {}) lie outside the file of {} bytes", path_,
                            offset, offset, length, size_));
  }
  return {data_ + offset, static_cast<size_t>(length)};
}

void MappedFile::release(std::span<const std::byte> range) const noexcept {
  advise_inside(range, MADV_DONTNEED);
}

void MappedFile::prefetch(std::span<const std::byte> range) const noexcept {
  advise_inside(range, MADV_WILLNEED);
}

}  // namespace mlxcel
