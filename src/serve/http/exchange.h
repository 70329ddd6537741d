// One HTTP request and its answer, as route handlers see them. No type of the HTTP library shows.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlxcel::serve {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without --api-prefix and query
  std::vector<std::pair<std::string, std::string>> query, headers;  // header names in lower case
  std::vector<std::pair<std::string, std::string>> path_values;     // "{id}" of the route's pattern
  std::string body;                                                 // within the size limit
  std::string client;                                               // address, for logs
  int key_id = -1;  // which configured API key it came with; -1 = none was needed

  /// First value of a name; null when absent. `name` of header() is in lower case.
  const std::string* header(std::string_view name) const;
  const std::string* query_value(std::string_view name) const;
  const std::string* path_value(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;
};

/// A request being answered: either one reply(), or begin_stream(), write()... and finish(). Every
/// member may be called from any thread, never blocks and never throws; what is written after the
/// client has gone is dropped. An exchange destroyed without an answer replies 500; one destroyed
/// inside a stream closes the connection, so that the client sees a broken body.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const noexcept = 0;

  virtual void reply(HttpResponse response) noexcept = 0;

  /// Sends the status line and headers of a chunked body at once.
  virtual void begin_stream(
      int status, std::string content_type,
      std::vector<std::pair<std::string, std::string>> headers = {}) noexcept = 0;
  virtual void write(std::string bytes) noexcept = 0;
  virtual void finish() noexcept = 0;
  /// Sends `bytes` (a comment event) whenever nothing was written for `interval`; 0 ends it.
  virtual void heartbeat(std::string bytes, std::chrono::milliseconds interval) noexcept = 0;

  /// Whether the client is gone.
  virtual bool closed() const noexcept = 0;
  /// Called at most once, from a thread of the server, when the client goes away before reply() or
  /// finish(), or reads so slowly that its queue overflows; at once when it is gone already.
  virtual void on_close(std::function<void()> callback) noexcept = 0;
  /// Bytes that wait for a slow reader. Beyond the server's limit the client is cut off.
  virtual size_t queued_bytes() const noexcept = 0;
};

/// Runs on a thread of the server's pool and may block briefly (parsing, rendering, tokenizing);
/// the answer may come later from any thread. A thrown Error becomes the error envelope of its
/// code.
using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

/// Routes by method and pattern. Patterns are literal segments and "{name}" segments.
class Router {
 public:
  enum class Auth { Key, Public };
  void add(std::string method, std::string pattern, Handler handler, Auth auth = Auth::Key);

  struct Match {
    const Handler* handler = nullptr;  // null: no such path
    Auth auth = Auth::Key;
    std::vector<std::pair<std::string, std::string>> path_values;
    std::vector<std::string> allowed;  // methods of this path, when only the method is wrong
  };
  /// Literal segments win over names. HEAD finds a GET route when it has none of its own.
  Match find(std::string_view method, std::string_view path) const;
  /// Method and pattern of every route, in the order of add().
  std::vector<std::pair<std::string, std::string>> list() const;

 private:
  struct Route {
    std::string method, pattern;
    std::vector<std::string> segments;
    Handler handler;
    Auth auth;
  };
  std::vector<Route> routes_;
};

}  // namespace mlxcel::serve
