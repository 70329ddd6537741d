// Streams that their clients can take up again: the last bytes of each, for a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "serve/answer.h"

namespace mlxcel::serve {

/// The bytes of one stream. Thread-safe.
class StreamSession final : public StreamTee {
 public:
  static constexpr size_t kMaxBytes = size_t{4} << 20;  // older bytes are dropped

  void append(std::string_view bytes) noexcept override;
  void finish() noexcept override;
  bool keeps_running() const noexcept override;
  void set_stop(std::function<void()> stop) override;

  /// Sends what is kept from byte `from` on, and what follows, to `exchange`. False when those
  /// bytes are gone or not there yet.
  bool follow(const std::shared_ptr<Exchange>& exchange, uint64_t from);
  /// Ends the generation behind it.
  void cancel();
  Json status(std::string_view id) const;
  /// When it was complete; nothing while it runs.
  std::optional<std::chrono::steady_clock::time_point> completed() const;

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::string bytes_;
  uint64_t first_byte_ = 0;  // offset of bytes_ in the stream
  bool done_ = false, cancelled_ = false;
  int64_t started_at_ = 0, completed_at_ = 0;  // Unix seconds
  std::chrono::steady_clock::time_point completed_{};
  std::vector<std::shared_ptr<Exchange>> followers_;  // kept until the stream ends
  std::function<void()> stop_;
};

class StreamStore {
 public:
  /// A new session of this id; an earlier one is forgotten.
  std::shared_ptr<StreamSession> open(int key_id, const std::string& id);
  std::shared_ptr<StreamSession> find(int key_id, const std::string& id);
  void remove(int key_id, const std::string& id);
  /// Sessions whose id is `id` or begins with "id::".
  Json lookup(int key_id, const std::vector<std::string>& ids);

 private:
  void sweep();
  std::mutex mutex_;                                                          // guards the map
  std::unordered_map<std::string, std::shared_ptr<StreamSession>> sessions_;  // by key and id
};

}  // namespace mlxcel::serve
