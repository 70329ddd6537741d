// One client's connection: requests in, answers out, one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/dispatcher.h"
#include "serve/http/request_parser.h"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}
}  // namespace boost::asio

namespace mlxcel::serve {

struct ConnectionOptions {
  ParserLimits parser;
  size_t max_queued_bytes = size_t{4} << 20;      // unsent bytes of a stream, then disconnect
  std::chrono::milliseconds io_timeout{3600000};  // one read of a body, one write
  std::chrono::milliseconds head_timeout{60000};  // the whole head, from its first byte
  std::chrono::milliseconds idle_timeout{75000};  // between two requests
};

/// What connections need of their server.
struct ConnectionContext {
  boost::asio::io_context& io;  // runs in one thread
  const Dispatcher& dispatcher;
  ConnectionOptions options;
  std::function<void(std::function<void()>)> run;  // on the pool of handlers
  boost::asio::ssl::context* tls = nullptr;        // null: plain
  bool draining = false;                           // no further request on any connection
};

/// Everything in the thread of `io`.
class Connection {
 public:
  virtual ~Connection() = default;
  /// Checks deadlines and heartbeats; a few times a second.
  virtual void tick(std::chrono::steady_clock::time_point now) = 0;
  /// Closes now if no request is being answered, else after the answer.
  virtual void drain() = 0;
  virtual void close() = 0;
};

/// Takes over the connected socket `descriptor`. `on_end` is called once, when the connection is
/// over.
std::shared_ptr<Connection> open_connection(ConnectionContext& context, int descriptor,
                                            int address_family, std::string client,
                                            std::function<void(Connection*)> on_end);

}  // namespace mlxcel::serve
