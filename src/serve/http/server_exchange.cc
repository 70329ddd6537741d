#include "serve/http/server_exchange.h"

#include <exception>
#include <new>

#include "base/error.h"
#include "base/log.h"
#include "serve/wire/error.h"

namespace mlxcel::serve {

ExchangeCore::ExchangeCore(HttpRequest request, size_t max_queued_bytes, std::function<void()> wake)
    : request_(std::move(request)), max_queued_bytes_(max_queued_bytes), wake_(std::move(wake)) {}

void ExchangeCore::signal(std::unique_lock<std::mutex>& lock) noexcept {
  if (signalled_ || !wake_) return;
  signalled_ = true;
  // Under the lock, so that detach() returns only when no wake() is under way.
  try {
    wake_();
  } catch (...) {  // out of memory: the connection's next tick finds the data
    signalled_ = false;
  }
  lock.unlock();
}

void ExchangeCore::append(std::string_view bytes) {
  try {
    pending_.body.append(bytes);
    if (pending_.body.size() > max_queued_bytes_) pending_.overflow = true;
  } catch (const std::bad_alloc&) {
    pending_.overflow = true;
  }
}

void ExchangeCore::reply(HttpResponse response) noexcept {
  std::function<void()> dropped;
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::Open) return;
  pending_.head = true;
  pending_.status = response.status;
  pending_.content_type = std::move(response.content_type);
  pending_.headers = std::move(response.headers);
  pending_.body = std::move(response.body);
  pending_.complete = true;
  stage_ = Stage::Complete;
  dropped.swap(on_close_);
  signal(lock);
}

void ExchangeCore::begin_stream(int status, std::string content_type, Headers headers) noexcept {
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::Open) return;
  pending_.head = pending_.stream = true;
  pending_.status = status;
  pending_.content_type = std::move(content_type);
  pending_.headers = std::move(headers);
  stage_ = Stage::Streaming;
  last_write_ = Clock::now();
  signal(lock);
}

void ExchangeCore::write(std::string_view bytes) noexcept {
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::Streaming || closed() || pending_.overflow || bytes.empty()) return;
  append(bytes);
  if (beat_interval_.count() > 0) last_write_ = Clock::now();
  // The connection may be stuck in a write, and must learn of this all the same.
  if (pending_.overflow) signalled_ = false;
  signal(lock);
}

void ExchangeCore::finish() noexcept {
  std::function<void()> dropped;
  std::unique_lock lock(mutex_);
  if (stage_ != Stage::Streaming) return;
  stage_ = Stage::Complete;
  pending_.complete = true;
  dropped.swap(on_close_);
  signal(lock);
}

void ExchangeCore::heartbeat(std::string bytes, std::chrono::milliseconds interval) noexcept {
  const std::lock_guard lock(mutex_);
  beat_bytes_ = std::move(bytes);
  beat_interval_ = interval;
  last_write_ = Clock::now();
}

void ExchangeCore::on_close(std::function<void()> callback) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::Complete || stage_ == Stage::Aborted) return;
    if (!closed()) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

size_t ExchangeCore::queued_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return pending_.body.size();
}

void ExchangeCore::abandon() noexcept {
  {
    std::unique_lock lock(mutex_);
    if (stage_ == Stage::Complete || stage_ == Stage::Aborted) return;
    if (stage_ == Stage::Streaming) {
      stage_ = Stage::Aborted;
      pending_.aborted = true;
      signal(lock);
      return;
    }
  }
  reply(error_response(to_api_error(
      Error(Code::Internal, request_.method + " " + request_.path + " was left without answer"))));
}

bool ExchangeCore::overflowed() const noexcept {
  const std::lock_guard lock(mutex_);
  return pending_.overflow;
}

ExchangeCore::Pending ExchangeCore::take() {
  const std::lock_guard lock(mutex_);
  signalled_ = false;
  Pending out = std::move(pending_);
  pending_ = Pending();
  pending_.overflow = out.overflow;
  return out;
}

void ExchangeCore::client_gone() noexcept {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    callback.swap(on_close_);
  }
  if (callback) callback();
}

void ExchangeCore::detach() noexcept {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(wake_);
}

void ExchangeCore::tick(Clock::time_point now) noexcept {
  std::unique_lock lock(mutex_);
  const bool due = stage_ == Stage::Streaming && beat_interval_.count() > 0 && !closed() &&
                   now - last_write_ >= beat_interval_;
  if (!due) return;
  last_write_ = now;
  // A heartbeat behind unsent bytes would say nothing that they do not say.
  if (pending_.body.empty()) append(beat_bytes_);
  signal(lock);
}

void run_handler(const Handler& handler, const std::shared_ptr<Exchange>& exchange) noexcept {
  try {
    handler(exchange);
  } catch (const Error& e) {
    exchange->reply(error_response(to_api_error(e)));
  } catch (const std::bad_alloc&) {
    exchange->reply(error_response(
        to_api_error(Error(Code::ResourceExhausted, "the server is out of memory; try later"))));
  } catch (const std::exception& e) {
    exchange->reply(error_response(to_api_error(Error(Code::Internal, e.what()))));
  }
}

}  // namespace mlxcel::serve
