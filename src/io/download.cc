#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "io/download_file.h"
#include "io/hub.h"
#include "io/hub_names.h"
#include "io/store.h"

namespace mlxcel::io {
namespace fs = std::filesystem;
namespace {

constexpr size_t kParallelFiles = 4;

HttpOptions http_options(const HubOptions& options, const std::atomic<bool>* cancel) {
  HttpOptions http;
  http.endpoint = env::get("HF_ENDPOINT").value_or("https://huggingface.co");
  while (http.endpoint.ends_with('/')) http.endpoint.pop_back();
  http.token = options.token;
  if (http.token.empty()) http.token = env::get("HF_TOKEN").value_or("");
  if (http.token.empty()) http.token = env::get("HUGGING_FACE_HUB_TOKEN").value_or("");
  if (http.token.find_first_of("\r\n") != std::string::npos) {
    throw Error(Code::InvalidArgument, "the hub token contains a line break");
  }
  http.allow_insecure_token = env::get_bool("MLXCEL_ALLOW_INSECURE_ENDPOINT").value_or(false);
  http.cancel = cancel;
  return http;
}

/// A folder held by this process; another download into it waits.
class FolderLock {
 public:
  FolderLock(const std::string& dir, bool quiet) {
    fd_ = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) {
      throw Error(Code::Internal, fmt::format("cannot open {}: {}", dir, std::strerror(errno)));
    }
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    if (!quiet) fmt::print(stderr, "Another download into {} is running; waiting for it.\n", dir);
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

void make_folder(const fs::path& dir) {
  std::error_code ec;
  fs::create_directories(dir, ec);
  if (ec) {
    throw Error(Code::ResourceExhausted,
                fmt::format("cannot create {}: {}", dir.string(), ec.message()));
  }
}

/// The file (or all parts of a split one) that --hf-file names.
std::vector<RemoteFile> choose_single(const RemoteRepo& repo, const std::string& name) {
  std::vector<RemoteFile> chosen;
  const std::vector<std::string> parts = gguf_parts(name);
  for (const std::string& part : parts) {
    for (const RemoteFile& f : repo.files) {
      if (f.name == part) chosen.push_back(f);
    }
  }
  if (!parts.empty() && chosen.size() == parts.size()) return chosen;
  std::string list;
  for (const RemoteFile& f : repo.files) {
    if (f.name.ends_with(".gguf")) list += "\n  " + f.name;
  }
  throw Error(Code::NotFound,
              fmt::format("{} has no file '{}', or not all of its parts{}{}", repo.repo_id, name,
                          list.empty() ? "" : "; its GGUF files are:", list));
}

/// The files of a repository that make up a snapshot.
std::vector<RemoteFile> choose_files(const RemoteRepo& repo) {
  const auto any = [&](auto match) {
    return std::any_of(repo.files.begin(), repo.files.end(), match);
  };
  const bool safetensors =
      any([](const RemoteFile& f) { return f.name.ends_with(".safetensors"); });
  const bool standard_names = any([](const RemoteFile& f) {
    return f.name == "model.safetensors" || f.name == "model.safetensors.index.json";
  });
  std::vector<RemoteFile> chosen;
  std::string models;
  int model_count = 0;
  for (const RemoteFile& f : repo.files) {
    if (!is_model_file(f.name)) continue;
    if (f.name.ends_with(".gguf")) {
      if (safetensors) continue;  // the same weights again, often in many sizes
      if (!gguf_parts(f.name).empty()) {
        ++model_count;
        models += "\n  " + f.name;
      }
    }
    // Some repositories carry the weights a second time under the publisher's own naming.
    if (standard_names && f.name.starts_with("consolidated") && f.name.ends_with(".safetensors")) {
      continue;
    }
    chosen.push_back(f);
  }
  if (model_count > 1) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} offers several GGUF models; choose one with --hf-file:{}",
                            repo.repo_id, models));
  }
  if (!safetensors && model_count == 0) {
    throw Error(Code::NotFound,
                fmt::format("{} has neither SafeTensors nor GGUF weights", repo.repo_id));
  }
  return chosen;
}

/// The commit of an unfinished download into `dir`, empty when there is none.
std::string unfinished_commit(const std::string& dir) {
  const std::string marker = dir + "/" + kIncompleteMarker;
  if (!file_exists(marker)) return {};
  std::string commit = read_file(marker, 1024);
  while (commit.ends_with('\n')) commit.pop_back();
  return commit;
}

/// What an unfinished download of the same commit put in place was checked then; anything else
/// of the right size may be another version and is checked now.
bool already_there(const std::string& path, const RemoteFile& file, bool same_commit) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec) || fs::file_size(path, ec) != file.size || ec) return false;
  return same_commit || has_content(path, file);
}

uint64_t bytes_to_fetch(const std::vector<RemoteFile>& files) {
  uint64_t total = 0;
  for (const RemoteFile& f : files) total += f.size;  // each at most 2^44, at most 10^5 of them
  return total;
}

void check_space(const std::string& dir, uint64_t needed) {
  struct statvfs st{};
  if (::statvfs(dir.c_str(), &st) != 0) return;
  uint64_t parts = 0;
  std::error_code ec;
  fs::recursive_directory_iterator it(dir, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code ignored;
    if (it->path().extension() == kPartSuffix) parts += fs::file_size(it->path(), ignored);
  }
  const uint64_t free = static_cast<uint64_t>(st.f_bavail) * st.f_frsize;
  if (needed > parts && needed - parts > free) {
    throw Error(Code::ResourceExhausted,
                fmt::format("disk full: {} are needed in {}, and {} are free",
                            human_size(needed - parts), dir, human_size(free)));
  }
}

/// Runs `fetch_one(client, file)` for every file on a few threads; the first error stops the
/// others.
template <class Fetch>
void fetch_all(const std::vector<RemoteFile>& files, const HubOptions& options, Fetch fetch_one) {
  std::atomic<size_t> next{0};
  std::atomic<bool> cancel{false};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      HttpClient client(http_options(options, &cancel));
      for (size_t i = next++; i < files.size() && !cancel; i = next++) fetch_one(client, files[i]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      cancel = true;
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(kParallelFiles, files.size()); ++i) threads.emplace_back(work);
  threads.clear();
  if (failure) std::rethrow_exception(failure);
}

void remove_parts(const std::string& dir) {
  std::vector<fs::path> parts;
  std::error_code ec;
  fs::recursive_directory_iterator it(dir, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (it->path().extension() == kPartSuffix) parts.push_back(it->path());
  }
  for (const fs::path& part : parts) fs::remove(part, ec);
}

void fetch_into(const std::string& dir, const std::string& repo_id, const HubOptions& options) {
  const RetryPolicy retry{options.max_retries, options.retry_delay_ms};
  HttpClient client(http_options(options, nullptr));
  const HttpOptions& http = client.options();
  if (!http.token.empty() && !http.endpoint.starts_with("https://") && !http.allow_insecure_token) {
    log::warn("the token is not sent to {}, which is not https", url_for_messages(http.endpoint));
  }
  const RemoteRepo repo = list_repository(client, repo_id, options.revision, retry);
  std::vector<RemoteFile> files =
      options.file.empty() ? choose_files(repo) : choose_single(repo, options.file);
  if (!options.force) {
    const bool same_commit = unfinished_commit(dir) == repo.commit;
    std::erase_if(files, [&](const RemoteFile& f) {
      return already_there(dir + "/" + f.name, f, same_commit);
    });
  }
  // The largest first, so that the threads end at about the same time.
  std::sort(files.begin(), files.end(), [](const RemoteFile& a, const RemoteFile& b) {
    return a.size != b.size ? a.size > b.size : a.name < b.name;
  });
  const uint64_t total = bytes_to_fetch(files);
  check_space(dir, total);
  if (!options.quiet && !files.empty()) {
    fmt::print(stderr, "Downloading {}: {} files, {}, to {}\n", repo_id, files.size(),
               human_size(total), dir);
  }
  // One file of a repository stands for itself; only whole snapshots can be half there.
  const std::string marker = dir + "/" + kIncompleteMarker;
  const bool whole = options.file.empty();
  make_folder(dir);
  if (whole && !files.empty()) write_file_atomic(marker, repo.commit + "\n");
  {
    DownloadProgress progress(total, static_cast<int>(files.size()),
                              !options.quiet && DownloadProgress::wanted());
    fetch_all(files, options, [&](HttpClient& c, const RemoteFile& file) {
      const std::string path = dir + "/" + file.name;
      make_folder(fs::path(path).parent_path());
      download_file(c, repo, file, path, retry, progress);
      progress.file_done();
    });
  }
  if (!whole) return;
  remove_parts(dir);
  std::error_code ec;
  fs::remove(marker, ec);
  if (ec) {
    throw Error(Code::Internal, fmt::format("cannot remove {}: {}", marker, ec.message()));
  }
}

}  // namespace

std::string download_model(const std::string& repo_id, const HubOptions& options) {
  const bool local = !options.local_dir.empty();
  const std::string stored = store_path(local ? std::string() : store_root(options), repo_id);
  const std::string dir = local ? options.local_dir : stored;
  if (!options.revision.empty()) check_revision(options.revision);
  if (!options.file.empty()) check_repo_file_name(options.file, repo_id);
  const std::string result = options.file.empty() ? dir : dir + "/" + options.file;

  if (!local && !options.revision.empty() && is_complete_snapshot(dir)) {
    throw Error(Code::InvalidArgument,
                fmt::format("{} is in the store already ({}), which does not record its revision; "
                            "use another --models-dir for revision {}, or remove it first",
                            repo_id, dir, options.revision));
  }
  if (options.offline || env::get_bool("LLAMA_ARG_OFFLINE").value_or(false)) {
    throw Error(Code::InvalidArgument, fmt::format("--offline forbids downloading {}", repo_id));
  }
  make_folder(dir);
  const FolderLock lock(dir, options.quiet);
  const bool complete =
      options.file.empty() ? is_complete_snapshot(dir) : has_gguf(dir, options.file);
  if (complete && !options.force && !(local && !options.revision.empty())) return result;
  try {
    fetch_into(dir, repo_id, options);
  } catch (...) {
    std::error_code ignored;  // nothing came: leave no empty folders behind
    if (fs::remove(dir, ignored) && !local) fs::remove(fs::path(dir).parent_path(), ignored);
    throw;
  }
  return result;
}

}  // namespace mlxcel::io
