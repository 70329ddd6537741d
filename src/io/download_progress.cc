#include "io/download_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/env.h"

namespace mlxcel::io {

struct DownloadProgress::Impl {
  uint64_t total_bytes;
  int total_files;
  std::atomic<int64_t> present{0}, transferred{0};
  std::atomic<int> files{0};
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread drawer;

  void draw() const {
    const auto done = static_cast<double>(std::max<int64_t>(0, present.load()));
    const double fraction =
        total_bytes == 0 ? 1.0 : std::min(1.0, done / static_cast<double>(total_bytes));
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double rate =
        static_cast<double>(std::max<int64_t>(0, transferred.load())) / std::max(seconds, 1e-3);
    constexpr int kWidth = 28;
    const int filled = static_cast<int>(fraction * kWidth);
    std::string line =
        fmt::format("\r[{}{}] {:3.0f}%  {} / {}  {}/s  {}/{} files",
                    std::string(static_cast<size_t>(filled), '#'),
                    std::string(static_cast<size_t>(kWidth - filled), '.'), fraction * 100,
                    human_size(static_cast<uint64_t>(done)), human_size(total_bytes),
                    human_size(static_cast<uint64_t>(rate)), files.load(), total_files);
    const double left = static_cast<double>(total_bytes) - done;
    if (rate > 1 && left > 0) {
      const auto eta = static_cast<int64_t>(left / rate);
      line += fmt::format("  {:d}:{:02d} left", eta / 60, eta % 60);
    }
    line += "\x1b[K";
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stop) {
      draw();
      wake.wait_for(lock, std::chrono::milliseconds(200));
    }
    draw();
    std::fputc('\n', stderr);
  }
};

DownloadProgress::DownloadProgress(uint64_t total_bytes, int total_files, bool draw)
    : impl_(std::make_unique<Impl>()) {
  impl_->total_bytes = total_bytes;
  impl_->total_files = total_files;
  if (draw) impl_->drawer = std::thread([this] { impl_->run(); });
}

DownloadProgress::~DownloadProgress() {
  if (!impl_->drawer.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->wake.notify_all();
  impl_->drawer.join();
}

void DownloadProgress::add(int64_t bytes) {
  impl_->present += bytes;
  if (bytes > 0) impl_->transferred += bytes;
}

void DownloadProgress::adopt(int64_t bytes) { impl_->present += bytes; }

void DownloadProgress::file_done() { ++impl_->files; }

uint64_t DownloadProgress::transferred() const {
  return static_cast<uint64_t>(std::max<int64_t>(0, impl_->transferred.load()));
}

bool DownloadProgress::wanted() {
  return ::isatty(STDERR_FILENO) == 1 && !env::get("MLXCEL_NO_PROGRESS") && !env::get("NO_COLOR") &&
         !env::get("CI");
}

std::string human_size(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit >= 2 ? 2 : 1, kUnits[unit]);
}

}  // namespace mlxcel::io
