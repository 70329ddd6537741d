// Objects that clients refer to later: bounded in number, bytes and age.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "serve/served_model.h"

namespace mlxcel::serve {

/// The oldest entries make room for new ones. Thread-safe.
template <class T>
class TimedStore {
 public:
  using Clock = std::chrono::steady_clock;
  explicit TimedStore(const StoreLimits& limits) : limits_(limits) {}

  bool enabled() const { return limits_.max_entries > 0; }

  /// Replaces an entry of the same id. What is larger than the whole store is not kept.
  void put(const std::string& id, std::shared_ptr<const T> value, int64_t bytes,
           Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    remove(id);
    expire(now);
    if (!enabled() || bytes > limits_.max_bytes) return;
    while (static_cast<int64_t>(entries_.size()) >= limits_.max_entries ||
           bytes_ + bytes > limits_.max_bytes) {
      remove(entries_.front().id);
    }
    entries_.push_back({id, std::move(value), bytes, now});
    by_id_[id] = std::prev(entries_.end());
    bytes_ += bytes;
  }

  /// Null when unknown or too old.
  std::shared_ptr<const T> get(const std::string& id, Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    expire(now);
    const auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : it->second->value;
  }

  bool erase(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return remove(id);
  }

  int64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const T> value;  // shared with those who are reading it
    int64_t bytes;
    Clock::time_point stored;
  };

  bool remove(const std::string& id) {
    const auto it = by_id_.find(id);
    if (it == by_id_.end()) return false;
    bytes_ -= it->second->bytes;
    entries_.erase(it->second);
    by_id_.erase(it);
    return true;
  }

  void expire(Clock::time_point now) {
    if (limits_.ttl_seconds <= 0) return;
    const auto age = std::chrono::seconds(limits_.ttl_seconds);
    while (!entries_.empty() && now - entries_.front().stored > age) {
      remove(std::string(entries_.front().id));
    }
  }

  const StoreLimits limits_;
  mutable std::mutex mutex_;  // guards the rest
  std::list<Entry> entries_;  // oldest first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> by_id_;
  int64_t bytes_ = 0;
};

}  // namespace mlxcel::serve
