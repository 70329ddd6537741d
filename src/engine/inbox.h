// What other threads ask of the engine thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/sequence.h"

namespace mlxcel::engine {

class Inbox {
 public:
  struct Content {
    std::vector<SequencePtr> requests;
    std::vector<RequestId> cancels;
    std::vector<std::function<void()>> jobs;
    bool stop = false;
  };

  /// `max_active`: requests accepted and not finished.
  explicit Inbox(int32_t max_active) : max_active_(max_active) {}

  /// Takes a request; an Error when the queue is full or the engine does not run any more.
  Result<RequestId> submit(SequencePtr s);
  void cancel(RequestId id);
  /// False when the engine thread has left: the job will never run.
  bool post(std::function<void()> job);
  void stop();

  // Engine thread.
  /// Everything that came since the last call; waits for something while `wait` is set.
  Content take(bool wait);
  void one_finished();
  /// From now on requests are refused with this error.
  void refuse(Error reason);
  /// No job is accepted any more; the rest is returned.
  Content shut();

 private:
  std::mutex mutex_;  // guards everything below
  std::condition_variable arrived_;
  Content content_;
  std::optional<Error> refusal_;
  bool shut_ = false;
  int32_t active_ = 0;
  const int32_t max_active_;
  RequestId next_id_ = 1;
};

}  // namespace mlxcel::engine
