// A record of scheduler decisions in the Trace Event Format that chrome://tracing and Perfetto
// read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace mlxcel::engine {

struct TraceStep {
  const char* name = "";  // static text
  std::chrono::steady_clock::time_point begin{}, end{};
  int32_t rows = 0, prefill_tokens = 0, decoding = 0, queued = 0;
  int64_t free_bytes = 0;
};

class Trace {
 public:
  /// Records nothing when `path` is empty.
  explicit Trace(std::string path);
  bool enabled() const { return !path_.empty(); }
  void add(const TraceStep& step);
  /// A decision without duration, about one request.
  void mark(const char* name, uint64_t request, std::chrono::steady_clock::time_point when);
  /// Writes the file; logs an error when it cannot.
  void write() const noexcept;

 private:
  struct Mark {
    const char* name;
    uint64_t request;
    std::chrono::steady_clock::time_point when;
  };
  std::string path_;
  std::chrono::steady_clock::time_point start_;
  std::vector<TraceStep> steps_;
  std::vector<Mark> marks_;
  int64_t dropped_ = 0;
};

}  // namespace mlxcel::engine
