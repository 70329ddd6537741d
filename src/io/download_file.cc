#include "io/download_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"

namespace mlxcel::io {
namespace {

/// The hub's own digest of a file: SHA-256 of large files, git's blob id of small ones.
class FileDigest {
 public:
  FileDigest(const EVP_MD* kind, uint64_t blob_size) : context_(EVP_MD_CTX_new()), kind_(kind) {
    if (context_ == nullptr) throw Error(Code::Internal, "libcrypto gives no digest context");
    if (kind_ == EVP_sha1()) {
      prefix_ = fmt::format("blob {}", blob_size);
      prefix_ += '\0';
    }
    restart();
  }
  ~FileDigest() { EVP_MD_CTX_free(context_); }
  FileDigest(const FileDigest&) = delete;
  FileDigest& operator=(const FileDigest&) = delete;

  void restart() {
    EVP_DigestInit_ex(context_, kind_, nullptr);
    update(prefix_);
  }
  void update(std::string_view data) { EVP_DigestUpdate(context_, data.data(), data.size()); }
  std::string finish() {
    std::array<uint8_t, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    EVP_DigestFinal_ex(context_, bytes.data(), &length);
    return hex({bytes.data(), length});
  }

 private:
  EVP_MD_CTX* context_;
  const EVP_MD* kind_;
  std::string prefix_;
};

/// Calls use(data) for everything from the current position on; false when reading fails.
template <class Use>
bool read_all(int fd, Use use) {
  std::vector<char> block(size_t{1} << 20);
  while (true) {
    const ssize_t n = ::read(fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    use(std::string_view(block.data(), static_cast<size_t>(n)));
  }
}

/// The growing ".part" file.
class PartFile {
 public:
  PartFile(std::string path, const RemoteFile& file, DownloadProgress& progress)
      : path_(std::move(path)),
        file_(file),
        progress_(progress),
        digest_(file.git_sha1.empty() ? EVP_sha256() : EVP_sha1(), file.size) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) throw failed("create");
    try {
      adopt_existing();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }
  bool whole() const { return size_ == file_.size; }

  void append(std::string_view data) {
    if (data.size() > file_.size - size_) {
      throw Error(Code::Corrupt, fmt::format("the hub sends more than the {} bytes it announced "
                                             "for {}",
                                             file_.size, file_.name));
    }
    digest_.update(data);
    while (!data.empty()) {
      const ssize_t n = ::write(fd_, data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw failed("write");
      size_ += static_cast<uint64_t>(n);
      progress_.add(n);
      data.remove_prefix(static_cast<size_t>(n));
    }
  }

  void clear() {
    if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) throw failed("write");
    progress_.add(-static_cast<int64_t>(size_));
    size_ = 0;
    digest_.restart();
  }

  /// The digest of the content; the file must be cleared before it is written again.
  std::string digest() { return digest_.finish(); }

  void rename_to(const std::string& target) {
    if (::fsync(fd_) != 0) throw failed("write");
    if (std::rename(path_.c_str(), target.c_str()) != 0) throw failed("rename");
  }

  void remove() { ::unlink(path_.c_str()); }

 private:
  void adopt_existing() {
    struct stat st{};
    if (::fstat(fd_, &st) != 0 || !S_ISREG(st.st_mode)) throw failed("use");
    const bool known = !file_.sha256.empty() || !file_.git_sha1.empty();
    if (!known || static_cast<uint64_t>(st.st_size) > file_.size) {
      clear();  // without a digest there is no telling whether the beginning is of the same file
      return;
    }
    const bool read = read_all(fd_, [&](std::string_view data) {
      digest_.update(data);
      size_ += data.size();
      progress_.adopt(static_cast<int64_t>(data.size()));
    });
    if (!read) throw failed("read");
  }

  Error failed(const char* what) const {
    const int code = errno;
    const std::string why = std::strerror(code);
    if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
      return {Code::ResourceExhausted,
              fmt::format("disk full: cannot {} {}: {}; {} of {} bytes are there. Free space and "
                          "run the command again: it goes on from there",
                          what, path_, why, size_, file_.size)};
    }
    return {Code::ResourceExhausted, fmt::format("cannot {} {}: {}", what, path_, why)};
  }

  std::string path_;
  const RemoteFile& file_;
  DownloadProgress& progress_;
  FileDigest digest_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

class PartSink final : public HttpSink {
 public:
  explicit PartSink(PartFile& part) : part_(part) {}
  void begin(const HttpResponse& head) override {
    if (head.status != 206) {
      if (part_.size() > 0) part_.clear();  // the server starts over
      return;
    }
    const std::string expected = fmt::format("bytes {}-", part_.size());
    if (!head.header("content-range").starts_with(expected)) {
      part_.clear();
      throw Error(Code::Corrupt, fmt::format("the hub sends another part than was asked for "
                                             "({} instead of {})",
                                             head.header("content-range"), expected));
    }
  }
  void write(std::string_view data) override { part_.append(data); }

 private:
  PartFile& part_;
};

/// Transfers until the part is whole; retries what is transient as long as something new arrives.
void fetch(HttpClient& client, const std::string& url, const RemoteFile& file, PartFile& part,
           const RetryPolicy& retry, std::string& linked_etag) {
  for (int attempt = 0; !part.whole();) {
    const uint64_t before = part.size();
    PartSink sink(part);
    HttpResponse response = client.get(url, before, sink);
    if (!response.linked_etag.empty()) linked_etag = response.linked_etag;
    if (response.ok() && part.whole()) return;
    if (response.status == 416) {
      part.clear();
    } else if (response.ok()) {
      response.transport_error = fmt::format("only {} of {} bytes came", part.size(), file.size);
    } else if (!RetryPolicy::transient(response)) {
      refuse(response, client, file.name);
    }
    if (client.options().cancel != nullptr && client.options().cancel->load()) {
      throw Error(Code::Cancelled, "the download was cancelled");
    }
    attempt = part.size() > before ? 0 : attempt + 1;
    if (attempt > retry.max_retries) refuse(response, client, file.name);
    retry.wait(attempt, response);
  }
}

}  // namespace

bool has_content(const std::string& path, const RemoteFile& file) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat st{};
  bool same = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
              static_cast<uint64_t>(st.st_size) == file.size;
  const std::string& known = file.sha256.empty() ? file.git_sha1 : file.sha256;
  if (same && !known.empty()) {
    FileDigest digest(file.sha256.empty() ? EVP_sha1() : EVP_sha256(), file.size);
    same = read_all(fd, [&](std::string_view data) { digest.update(data); }) &&
           digest.finish() == known;
  }
  ::close(fd);
  return same;
}

void download_file(HttpClient& client, const RemoteRepo& repo, const RemoteFile& file,
                   const std::string& path, const RetryPolicy& retry, DownloadProgress& progress) {
  const std::string& known = file.sha256.empty() ? file.git_sha1 : file.sha256;
  const std::string part_path =
      fmt::format("{}.{}{}", path, known.empty() ? "unknown" : known.substr(0, 16), kPartSuffix);
  PartFile part(part_path, file, progress);
  for (int attempt = 0;; ++attempt) {
    std::string expected = known;
    std::string linked_etag;
    fetch(client, file_url(client, repo, file), file, part, retry, linked_etag);
    if (expected.empty() && linked_etag.size() == 64) expected = linked_etag;
    const std::string actual = part.digest();
    if (expected.empty()) {
      log::warn("the hub gives no digest of {}: only its size was checked", file.name);
    } else if (actual != expected) {
      part.clear();
      if (attempt == 0) continue;  // an earlier, broken part may have been continued
      part.remove();
      throw Error(Code::Corrupt,
                  fmt::format("{} of {} arrives damaged: its digest is {}, the hub's is {}",
                              file.name, repo.repo_id, actual, expected));
    }
    part.rename_to(path);
    return;
  }
}

}  // namespace mlxcel::io
