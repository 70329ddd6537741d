#include "engine/step_worker.h"

#include "base/error.h"

namespace mlxcel::engine {

StepWorker::StepWorker(bool synchronous) : synchronous_(synchronous) {
  if (!synchronous_) thread_ = std::thread([this] { loop(); });
}

StepWorker::~StepWorker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void StepWorker::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    MLXCEL_CHECK(state_ == State::Idle, "a step is in flight already");
    job_ = std::move(job);
    failure_ = nullptr;
    state_ = State::Posted;
  }
  if (synchronous_) {
    run_job();
    const std::lock_guard lock(mutex_);
    state_ = State::Ended;
  } else {
    posted_.notify_one();
  }
}

bool StepWorker::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  MLXCEL_CHECK(state_ != State::Idle, "no step is in flight");
  return ended_.wait_until(lock, deadline, [&] { return state_ == State::Ended; });
}

void StepWorker::collect() {
  std::unique_lock lock(mutex_);
  MLXCEL_CHECK(state_ != State::Idle, "no step is in flight");
  ended_.wait(lock, [&] { return state_ == State::Ended; });
  state_ = State::Idle;
  job_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void StepWorker::run_job() noexcept {
  std::exception_ptr failure;
  try {
    job_();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
}

void StepWorker::loop() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return stop_ || state_ == State::Posted; });
      if (state_ != State::Posted) return;
      state_ = State::Running;
    }
    run_job();
    {
      const std::lock_guard lock(mutex_);
      state_ = State::Ended;
    }
    ended_.notify_one();
  }
}

}  // namespace mlxcel::engine
