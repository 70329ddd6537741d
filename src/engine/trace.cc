#include "engine/trace.h"

#include <fmt/core.h>

#include <exception>
#include <fstream>

#include "base/log.h"

namespace mlxcel::engine {
namespace {

// About 80 MB of memory; a trace beyond that is of no use to a viewer either.
constexpr size_t kMaxEntries = 1'000'000;

double micros(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

}  // namespace

Trace::Trace(std::string path) : path_(std::move(path)), start_(std::chrono::steady_clock::now()) {}

void Trace::add(const TraceStep& step) {
  if (!enabled()) return;
  if (steps_.size() < kMaxEntries) {
    steps_.push_back(step);
  } else {
    ++dropped_;
  }
}

void Trace::mark(const char* name, uint64_t request, std::chrono::steady_clock::time_point when) {
  if (!enabled()) return;
  if (marks_.size() < kMaxEntries) {
    marks_.push_back({name, request, when});
  } else {
    ++dropped_;
  }
}

void Trace::write() const noexcept {
  if (!enabled()) return;
  try {
    std::ofstream out(path_, std::ios::binary);
    out << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":" << dropped_
        << "},\"traceEvents\":[\n"
        << R"({"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"engine"}})";
    for (const TraceStep& s : steps_) {
      out << fmt::format(
          ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":{:.1f},\"dur\":{:.1f},"
          "\"args\":{{\"rows\":{},\"prefill_tokens\":{},\"decoding\":{},\"queued\":{},"
          "\"free_bytes\":{}}}}}",
          s.name, micros(s.begin - start_), micros(s.end - s.begin), s.rows, s.prefill_tokens,
          s.decoding, s.queued, s.free_bytes);
    }
    for (const Mark& m : marks_) {
      out << fmt::format(
          ",\n{{\"name\":\"{}\",\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":1,\"ts\":{:.1f},"
          "\"args\":{{\"request\":{}}}}}",
          m.name, micros(m.when - start_), m.request);
    }
    out << "\n]}\n";
    out.flush();
    if (!out) log::error("cannot write the scheduler trace to {}", path_);
  } catch (const std::exception& e) {
    log::write(log::Level::Error, e.what());
  }
}

}  // namespace mlxcel::engine
