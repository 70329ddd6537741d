// The answer to one request: a reply, or a stream of server-sent events.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/http/exchange.h"
#include "serve/wire/api_error.h"

namespace mlxcel::serve {

/// Receives a copy of every byte of a stream of events. Any thread.
class StreamTee {
 public:
  virtual ~StreamTee() = default;
  virtual void append(std::string_view bytes) noexcept = 0;
  virtual void finish() noexcept = 0;
  /// While true the stream goes on without its client.
  virtual bool keeps_running() const noexcept = 0;
  /// What ends the generation behind the stream.
  virtual void set_stop(std::function<void()> stop) = 0;
};

class Answer {
 public:
  explicit Answer(std::shared_ptr<Exchange> exchange, std::shared_ptr<StreamTee> tee = nullptr);

  Exchange& exchange() { return *exchange_; }
  StreamTee* tee() { return tee_.get(); }

  void reply(HttpResponse response);
  void reply(const Json& body) { reply(json_response(body)); }
  /// An error reply, or an error event that ends the stream.
  void fail(const ApiError& error, wire::Envelope envelope);

  /// Sends the headers; `heartbeat` goes out whenever nothing was written for `ping` (0: never).
  void begin_events(std::chrono::milliseconds ping, std::string_view heartbeat = ":\n\n");
  bool streaming() const { return streaming_; }
  /// "data: ..."
  void data(const Json& payload);
  void data_text(std::string_view payload);
  /// "event: name" and "data: ..."
  void event(std::string_view name, const Json& payload);
  void finish();

 private:
  void write(std::string frame);

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<StreamTee> tee_;  // may be null
  bool streaming_ = false, finished_ = false;
};

}  // namespace mlxcel::serve
