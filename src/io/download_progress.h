// How far a download is: counters fed by its threads, drawn as one line on a terminal.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace mlxcel::io {

class DownloadProgress {
 public:
  /// Draws on stderr when `draw` is set, from a thread of its own until destruction.
  DownloadProgress(uint64_t total_bytes, int total_files, bool draw);
  ~DownloadProgress();
  DownloadProgress(const DownloadProgress&) = delete;
  DownloadProgress& operator=(const DownloadProgress&) = delete;

  void add(int64_t bytes);    // transferred now; negative when thrown away
  void adopt(int64_t bytes);  // found on the disk
  void file_done();
  uint64_t transferred() const;  // bytes that came over the network

  /// False when the terminal or the environment (MLXCEL_NO_PROGRESS, NO_COLOR, CI) speaks against
  /// a bar.
  static bool wanted();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "1.23 GB", "45.6 MB", "789 B": decimal units, as hubs print them.
std::string human_size(uint64_t bytes);

}  // namespace mlxcel::io
