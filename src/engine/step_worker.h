// Runs one job at a time beside the engine thread: the CPU's stand-in for a device stream. While a
// forward runs here, the engine thread delivers the events of the step before it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace mlxcel::engine {

class StepWorker {
 public:
  /// `synchronous`: jobs run inside start(), on the calling thread.
  explicit StepWorker(bool synchronous);
  ~StepWorker();  // waits for the job in flight
  StepWorker(const StepWorker&) = delete;
  StepWorker& operator=(const StepWorker&) = delete;

  /// Starts `job`; the one before it must have been collected.
  void start(std::function<void()> job);
  /// True once the job has ended; false when `deadline` came first.
  bool wait_until(std::chrono::steady_clock::time_point deadline);
  /// Waits for the job and rethrows what it threw.
  void collect();

 private:
  enum class State : uint8_t { Idle, Posted, Running, Ended };
  void loop();
  void run_job() noexcept;

  const bool synchronous_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable posted_, ended_;
  State state_ = State::Idle;
  bool stop_ = false;
  std::function<void()> job_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace mlxcel::engine
