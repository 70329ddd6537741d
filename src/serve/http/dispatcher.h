// What happens to a request before its handler: prefix, CORS, API keys, routing.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/api_keys.h"
#include "serve/http/exchange.h"

namespace mlxcel::serve {

struct CorsPolicy {
  std::string origins = "*";  // "*", "localhost", or a value sent as it is
  std::string headers = "*";
  std::string methods = "GET,POST,OPTIONS";
  bool credentials = true;
  /// When set, only these origins are let through, each echoed.
  std::optional<std::vector<std::string>> allowed_origins;
};

/// Immutable while the server runs, but for the router.
class Dispatcher {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  Dispatcher(ApiKeys keys, CorsPolicy cors, std::string prefix);

  struct Decision {
    std::optional<HttpResponse> response;  // answered here
    const Handler* handler = nullptr;      // else this one, owned by the router
  };
  /// Decides by the head of a request; strips the prefix and fills path_values and key_id.
  Decision decide(HttpRequest& request) const;

  /// CORS headers of every answer to this request.
  Headers cors_headers(const HttpRequest& request) const;

  /// Until there is a router, which must outlive this, every request is answered with 503 "Loading
  /// model".
  void set_router(const Router& router) { router_.store(&router, std::memory_order_release); }
  const std::string& prefix() const { return prefix_; }

 private:
  HttpResponse preflight() const;
  std::atomic<const Router*> router_{nullptr};
  const ApiKeys keys_;
  const CorsPolicy cors_;
  const std::string prefix_;
};

}  // namespace mlxcel::serve
