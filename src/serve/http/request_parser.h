// Bytes of a connection to requests: HTTP/1.0 and 1.1, with limits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/exchange.h"

namespace mlxcel::serve {

struct ParserLimits {
  uint32_t head_bytes = 64 << 10;  // request line and headers
  uint64_t body_bytes = uint64_t{64} << 20;
};

/// Reads one request. Not thread-safe.
class RequestParser {
 public:
  explicit RequestParser(const ParserLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Takes bytes from the front of `data` and returns how many. Until the head is complete it must
  /// be given the same bytes again with more behind them. Stops behind the head once, and behind
  /// the request.
  size_t feed(std::string_view data);
  /// Whether any byte of this request was seen.
  bool started() const;
  bool head_done() const;
  bool done() const;

  struct Problem {
    int status;  // 400, 413, 431 or 505
    std::string message;
  };
  const std::optional<Problem>& problem() const;

  /// Method, path, query and headers; valid once head_done().
  HttpRequest& request();
  /// Moves the body into the request; once done().
  HttpRequest take();
  bool keep_alive() const;
  bool http_1_0() const;
  bool expects_continue() const;
  /// Bytes that the head announces; nothing for a chunked body.
  std::optional<uint64_t> content_length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "Not Found" for 404.
std::string_view reason_phrase(int status);

}  // namespace mlxcel::serve
