// HTTP GET over libcurl for model downloads: redirects followed here, so that a token never leaves
// the hub's own host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlxcel::io {

struct HttpOptions {
  std::string endpoint;               // "https://huggingface.co", without a trailing slash
  std::string token;                  // empty = anonymous
  bool allow_insecure_token = false;  // send the token over plain http, too
  int64_t stall_seconds = 30;         // a transfer without a byte for this long fails
  const std::atomic<bool>* cancel = nullptr;
};

struct HttpResponse {
  int status = 0;   // 0 when the transfer failed before a status line
  std::string url;  // after redirects
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string linked_etag;      // X-Linked-Etag of any hop, without quotes
  std::string body;             // of a refusal (at most 64 KiB), or of get_text
  std::string transport_error;  // empty when the transfer ran to its end
  bool ok() const { return status >= 200 && status < 300 && transport_error.empty(); }
  /// The value of a header, empty when absent.
  std::string_view header(std::string_view name) const;
};

/// Receives a 2xx body. Exceptions end the transfer and leave get().
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual void begin(const HttpResponse& head) = 0;
  virtual void write(std::string_view data) = 0;
};

/// One connection pool; not thread-safe, one per thread.
class HttpClient {
 public:
  /// Throws InvalidArgument for an endpoint that is not http or https, or for an unusable
  /// MLXCEL_EXTRA_CA_CERTS.
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// GET from byte `offset` (a Range request when positive). At most 10 redirects; from https to
  /// http is refused. Authorization goes to the endpoint's own host and port only, over https only
  /// (see allow_insecure_token).
  HttpResponse get(const std::string& url, uint64_t offset, HttpSink& sink);
  /// GET into memory, at most `max_bytes`.
  HttpResponse get_text(const std::string& url, size_t max_bytes = size_t{64} << 20);
  const HttpOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlxcel::io
