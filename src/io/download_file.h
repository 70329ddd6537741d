// One file from a hub onto the disk: resumable, checked, renamed into place only when whole.
#pragma once

#include <string>

#include "io/download_progress.h"
#include "io/hub_api.h"

namespace mlxcel::io {

/// Downloads `file` of `repo` to `path` (its folder must exist). Content goes to
/// "<path>.<digest>.part", where an earlier attempt is continued, and is renamed after the size and
/// the digest were right. Throws Corrupt when the content is wrong twice, ResourceExhausted when
/// the disk is full or the file cannot be written (the part stays for the next attempt), and what
/// refuse() throws.
void download_file(HttpClient& client, const RemoteRepo& repo, const RemoteFile& file,
                   const std::string& path, const RetryPolicy& retry, DownloadProgress& progress);

/// True when the file at `path` has the size and the digest that the hub names (the size alone when
/// it names no digest). Reads the file.
bool has_content(const std::string& path, const RemoteFile& file);

/// Ending of the names of unfinished files.
inline constexpr const char* kPartSuffix = ".part";

}  // namespace mlxcel::io
