// What a hub says about a repository: its commit, its files and their digests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/hub_http.h"

namespace mlxcel::io {

struct RemoteFile {
  std::string name;      // checked by check_repo_file_name
  uint64_t size = 0;     // bytes
  std::string sha256;    // of files kept in large-file storage, lower-case hex
  std::string git_sha1;  // of the others: SHA-1 of "blob <size>\0" and the content
};

struct RemoteRepo {
  std::string repo_id, commit;
  std::vector<RemoteFile> files;
};

struct RetryPolicy {
  int max_retries = 4;
  int delay_ms = 500;
  /// True for what may be different a moment later: no connection, a broken transfer, 408, 429 and
  /// 5xx.
  static bool transient(const HttpResponse& response);
  /// Sleeps before retry number `retry` (0, 1, ...); Retry-After is honoured up to 60 s.
  void wait(int retry, const HttpResponse& response) const;
};

/// Asks for the commit of `revision` (empty = main) and for all files of that commit. Throws as
/// refuse() does, Corrupt for an answer that makes no sense, InvalidArgument for hostile file
/// names.
RemoteRepo list_repository(HttpClient& client, const std::string& repo_id,
                           const std::string& revision, const RetryPolicy& retry);

/// Where the content of a file is.
std::string file_url(const HttpClient& client, const RemoteRepo& repo, const RemoteFile& file);

/// Throws the error that a response other than 2xx stands for, with advice; `what` names the thing
/// asked for.
[[noreturn]] void refuse(const HttpResponse& response, const HttpClient& client,
                         std::string_view what);

}  // namespace mlxcel::io
