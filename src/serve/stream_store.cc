#include "serve/stream_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/log.h"

namespace mlxcel::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kKeepFor = std::chrono::seconds(300);  // after its end
constexpr size_t kMaxFinished = 256;

int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Keys see their own sessions only.
std::string key_of(int key_id, std::string_view id) { return fmt::format("{}\n{}", key_id, id); }

}  // namespace

void StreamSession::append(std::string_view bytes) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (started_at_ == 0) started_at_ = unix_now();
    bytes_ += bytes;
    if (bytes_.size() > kMaxBytes) {
      // Half at a time, so that dropping costs a constant per byte.
      const size_t drop = bytes_.size() - kMaxBytes / 2;
      bytes_.erase(0, drop);
      first_byte_ += drop;
    }
    std::erase_if(followers_, [](const auto& f) { return f->closed(); });
    for (const auto& follower : followers_) follower->write(std::string(bytes));
  } catch (const std::exception& e) {
    log::error("a copy of a stream is incomplete: {}", e.what());
  }
}

void StreamSession::finish() noexcept {
  const std::lock_guard lock(mutex_);
  done_ = true;
  completed_ = Clock::now();
  completed_at_ = unix_now();
  for (const auto& follower : followers_) follower->finish();
  followers_.clear();
}

bool StreamSession::keeps_running() const noexcept {
  const std::lock_guard lock(mutex_);
  return !cancelled_;
}

void StreamSession::set_stop(std::function<void()> stop) {
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    stop_ = stop;
    cancelled = cancelled_;
  }
  if (cancelled) stop();
}

bool StreamSession::follow(const std::shared_ptr<Exchange>& exchange, uint64_t from) {
  const std::lock_guard lock(mutex_);
  if (from < first_byte_ || from > first_byte_ + bytes_.size()) return false;
  exchange->begin_stream(200, "text/event-stream; charset=utf-8", {{"Cache-Control", "no-cache"}});
  exchange->write(bytes_.substr(static_cast<size_t>(from - first_byte_)));
  if (done_) {
    exchange->finish();
  } else {
    followers_.push_back(exchange);
  }
  return true;
}

void StreamSession::cancel() {
  std::function<void()> stop;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    stop = stop_;
  }
  if (stop) stop();
}

Json StreamSession::status(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return Json::object({{"conversation_id", id},
                       {"is_done", done_},
                       {"total_bytes", static_cast<int64_t>(first_byte_ + bytes_.size())},
                       {"started_at", started_at_},
                       {"completed_at", done_ ? Json(completed_at_) : Json()}});
}

std::optional<Clock::time_point> StreamSession::completed() const {
  const std::lock_guard lock(mutex_);
  return done_ ? std::optional(completed_) : std::nullopt;
}

std::shared_ptr<StreamSession> StreamStore::open(int key_id, const std::string& id) {
  auto session = std::make_shared<StreamSession>();
  const std::lock_guard lock(mutex_);
  sweep();
  sessions_[key_of(key_id, id)] = session;
  return session;
}

std::shared_ptr<StreamSession> StreamStore::find(int key_id, const std::string& id) {
  const std::lock_guard lock(mutex_);
  sweep();
  const auto it = sessions_.find(key_of(key_id, id));
  return it == sessions_.end() ? nullptr : it->second;
}

void StreamStore::remove(int key_id, const std::string& id) {
  std::shared_ptr<StreamSession> session;
  {
    const std::lock_guard lock(mutex_);
    const auto it = sessions_.find(key_of(key_id, id));
    if (it == sessions_.end()) return;
    session = it->second;
    sessions_.erase(it);
  }
  session->cancel();
}

Json StreamStore::lookup(int key_id, const std::vector<std::string>& ids) {
  const std::lock_guard lock(mutex_);
  sweep();
  Json out = Json::array();
  const std::string prefix = key_of(key_id, "");
  for (const auto& [key, session] : sessions_) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view id = std::string_view(key).substr(prefix.size());
    const bool wanted = std::ranges::any_of(ids, [&](const std::string& w) {
      return id == w || (id.starts_with(w) && id.substr(w.size()).starts_with("::"));
    });
    if (wanted) out.push_back(session->status(id));
  }
  return out;
}

// Forgets what has been complete for too long, and the oldest of too many.
void StreamStore::sweep() {
  const auto now = Clock::now();
  std::vector<std::pair<Clock::time_point, std::string>> finished;
  for (const auto& [key, session] : sessions_) {
    if (const auto at = session->completed()) finished.emplace_back(*at, key);
  }
  std::ranges::sort(finished);
  for (size_t i = 0; i < finished.size(); ++i) {
    const bool too_many = finished.size() - i > kMaxFinished;
    if (too_many || now - finished[i].first > kKeepFor) sessions_.erase(finished[i].second);
  }
}

}  // namespace mlxcel::serve
