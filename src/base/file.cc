#include "base/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/error.h"

namespace mlxcel {
namespace {
struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;
}  // namespace

bool file_exists(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string read_file(const std::string& path, uint64_t max_bytes) {
  if (is_directory(path)) {
    throw Error(Code::InvalidArgument, fmt::format("{} is a directory, expected a file", path));
  }
  const FilePtr file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    throw Error(Code::NotFound, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  std::string out;
  struct stat st{};
  if (::fstat(::fileno(file.get()), &st) == 0 && st.st_size > 0 &&
      static_cast<uint64_t>(st.st_size) <= max_bytes) {
    out.reserve(static_cast<size_t>(st.st_size));
  }
  char block[65536];
  while (const size_t n = std::fread(block, 1, sizeof block, file.get())) {
    if (out.size() + n > max_bytes) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("{} is larger than the limit of {} bytes", path, max_bytes));
    }
    out.append(block, n);
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(Code::NotFound, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  return out;
}

void write_file_atomic(const std::string& path, std::string_view data) {
  static std::atomic<uint64_t> counter{0};  // two threads may write the same path
  const std::string temporary = fmt::format("{}.{}-{}.tmp", path, ::getpid(), ++counter);
  const auto fail = [&](const char* what) {
    const std::string why = std::strerror(errno);
    ::unlink(temporary.c_str());
    return Error(Code::ResourceExhausted, fmt::format("cannot {} {}: {}", what, path, why));
  };
  FilePtr file(std::fopen(temporary.c_str(), "wb"));
  if (!file) throw fail("create");
  if (std::fwrite(data.data(), 1, data.size(), file.get()) != data.size()) throw fail("write");
  if (std::fflush(file.get()) != 0 || ::fsync(::fileno(file.get())) != 0) throw fail("write");
  file.reset();
  if (std::rename(temporary.c_str(), path.c_str()) != 0) throw fail("rename");
}

}  // namespace mlxcel
