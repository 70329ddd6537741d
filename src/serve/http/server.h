// Listens, accepts, and stops in order.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/http/connection.h"
#include "serve/http/dispatcher.h"

namespace mlxcel::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // address or name; "*.sock" is a Unix socket, without port
  int port = 8080;                 // 0 = any free one
  bool reuse_port = false;
  int num_handlers = 4;  // threads that run handlers
  std::string tls_cert_file, tls_key_file;
  ConnectionOptions connection;
};

class HttpServer {
 public:
  /// Binds, listens and starts answering in threads of its own. Throws InvalidArgument for an
  /// address that is taken or unknown, or a certificate that cannot be used; NotFound for a missing
  /// file. `dispatcher` outlives the server.
  static std::unique_ptr<HttpServer> start(const HttpServerOptions& options,
                                           const Dispatcher& dispatcher);
  ~HttpServer();  // as stop()

  /// "http://127.0.0.1:8080" or "unix:/path.sock".
  const std::string& url() const;
  int port() const;  // 0 for a Unix socket

  /// Calls `handler` with 1, 2, ... for every SIGINT and SIGTERM, in the server's thread.
  void on_signal(std::function<void(int)> handler);
  /// No new connections and requests; answers under way are finished. Any thread.
  void drain();
  /// Cuts off everybody. Any thread.
  void stop();
  /// Returns when drain() or stop() is through.
  void wait();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlxcel::serve
