#include "engine/inbox.h"

#include <fmt/core.h>

namespace mlxcel::engine {

Result<RequestId> Inbox::submit(SequencePtr s) {
  RequestId id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (refusal_) return *refusal_;
    if (content_.stop || shut_) return Error(Code::Cancelled, "the engine is shutting down");
    if (active_ >= max_active_) {
      return Error(Code::ResourceExhausted,
                   fmt::format("the request queue is full: {} requests are running or waiting; try "
                               "again later",
                               active_));
    }
    ++active_;
    id = next_id_++;
    s->id = id;
    content_.requests.push_back(std::move(s));
  }
  arrived_.notify_one();
  return id;
}

void Inbox::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    content_.cancels.push_back(id);
  }
  arrived_.notify_one();
}

bool Inbox::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (shut_) return false;
    content_.jobs.push_back(std::move(job));
  }
  arrived_.notify_one();
  return true;
}

void Inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    content_.stop = true;
  }
  arrived_.notify_one();
}

Inbox::Content Inbox::take(bool wait) {
  std::unique_lock lock(mutex_);
  const auto something = [&] {
    return content_.stop || !content_.requests.empty() || !content_.cancels.empty() ||
           !content_.jobs.empty();
  };
  // The prefix cache's entries expire while the engine is idle, too.
  if (wait) arrived_.wait_for(lock, std::chrono::seconds(10), something);
  Content out = std::move(content_);
  content_ = Content{};
  content_.stop = out.stop;
  return out;
}

void Inbox::one_finished() {
  const std::lock_guard lock(mutex_);
  --active_;
}

void Inbox::refuse(Error reason) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(reason);
}

Inbox::Content Inbox::shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  return std::exchange(content_, Content{});
}

}  // namespace mlxcel::engine
