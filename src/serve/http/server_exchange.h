// The meeting point of a route handler, which answers from any thread, and the connection, which
// sends from its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/exchange.h"

namespace mlxcel::serve {

/// State of one answer. The handler's side is thread-safe; the connection's side belongs to one
/// thread.
class ExchangeCore {
 public:
  using Clock = std::chrono::steady_clock;
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// `wake` is called, from any thread, when there is something to take; not again before take(),
  /// unless too much waits.
  ExchangeCore(HttpRequest request, size_t max_queued_bytes, std::function<void()> wake);

  // --- the handler's side, see Exchange
  const HttpRequest& request() const { return request_; }
  void reply(HttpResponse response) noexcept;
  void begin_stream(int status, std::string content_type, Headers headers) noexcept;
  void write(std::string_view bytes) noexcept;
  void finish() noexcept;
  void heartbeat(std::string bytes, std::chrono::milliseconds interval) noexcept;
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  void on_close(std::function<void()> callback) noexcept;
  size_t queued_bytes() const noexcept;
  /// The handler let go of the exchange: 500 when nothing was sent, else the stream is aborted.
  void abandon() noexcept;

  // --- the connection's side
  struct Pending {
    bool head = false;  // status, content_type and headers are valid
    bool stream = false;
    int status = 200;
    std::string content_type;
    Headers headers;
    std::string body;       // bytes since the last take()
    bool complete = false;  // nothing follows
    bool aborted = false;   // the body breaks off here
    bool overflow = false;  // the client reads too slowly
  };
  Pending take();
  /// Whether more waits than is allowed; wake() is called again when that happens.
  bool overflowed() const noexcept;
  /// Calls on_close unless the answer is complete. A reply() that comes later is still taken, for
  /// clients that closed only their sending half.
  void client_gone() noexcept;
  /// No more wake() after this.
  void detach() noexcept;
  /// Queues the heartbeat when it is due.
  void tick(Clock::time_point now) noexcept;

 private:
  enum class Stage : uint8_t { Open, Streaming, Complete, Aborted };
  void signal(std::unique_lock<std::mutex>& lock) noexcept;
  void append(std::string_view bytes);

  const HttpRequest request_;
  const size_t max_queued_bytes_;
  std::atomic<bool> closed_{false};

  mutable std::mutex mutex_;  // guards what follows
  Stage stage_ = Stage::Open;
  Pending pending_;
  bool signalled_ = false;
  std::function<void()> wake_, on_close_;
  std::string beat_bytes_;
  std::chrono::milliseconds beat_interval_{0};
  Clock::time_point last_write_{};
};

/// What handlers hold.
class ServerExchange final : public Exchange {
 public:
  explicit ServerExchange(std::shared_ptr<ExchangeCore> core) : core_(std::move(core)) {}
  ~ServerExchange() override { core_->abandon(); }
  ServerExchange(const ServerExchange&) = delete;
  ServerExchange& operator=(const ServerExchange&) = delete;

  const HttpRequest& request() const noexcept override { return core_->request(); }
  void reply(HttpResponse response) noexcept override { core_->reply(std::move(response)); }
  void begin_stream(int status, std::string content_type,
                    std::vector<std::pair<std::string, std::string>> headers) noexcept override {
    core_->begin_stream(status, std::move(content_type), std::move(headers));
  }
  void write(std::string bytes) noexcept override { core_->write(bytes); }
  void finish() noexcept override { core_->finish(); }
  void heartbeat(std::string bytes, std::chrono::milliseconds interval) noexcept override {
    core_->heartbeat(std::move(bytes), interval);
  }
  bool closed() const noexcept override { return core_->closed(); }
  void on_close(std::function<void()> callback) noexcept override {
    core_->on_close(std::move(callback));
  }
  size_t queued_bytes() const noexcept override { return core_->queued_bytes(); }

 private:
  std::shared_ptr<ExchangeCore> core_;
};

/// Runs a handler; what it throws becomes the answer.
void run_handler(const Handler& handler, const std::shared_ptr<Exchange>& exchange) noexcept;

}  // namespace mlxcel::serve
