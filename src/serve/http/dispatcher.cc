#include "serve/http/dispatcher.h"

#include <fmt/core.h>

#include <algorithm>

#include "serve/wire/error.h"

namespace mlxcel::serve {
namespace {

/// Whether an Origin header names this machine.
bool is_local(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  std::string_view host = origin.substr(scheme + 3);
  const size_t colon = host.starts_with('[') ? host.find("]:") : host.find(':');
  if (colon != std::string_view::npos) host = host.substr(0, colon + (host[colon] == ']' ? 1 : 0));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

HttpResponse refusal(int status, const char* type, std::string message) {
  return error_response(
      {.status = status, .type = type, .message = std::move(message), .extra = {}});
}

std::string joined(std::vector<std::string> methods) {
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  std::string out;
  for (const std::string& method : methods) out += (out.empty() ? "" : ", ") + method;
  return out;
}

}  // namespace

Dispatcher::Dispatcher(ApiKeys keys, CorsPolicy cors, std::string prefix)
    : keys_(std::move(keys)), cors_(std::move(cors)), prefix_(std::move(prefix)) {}

HttpResponse Dispatcher::preflight() const {
  HttpResponse response;
  response.content_type = "text/html";
  response.headers = {{"Access-Control-Allow-Methods", cors_.methods},
                      {"Access-Control-Allow-Headers", cors_.headers}};
  return response;
}

Dispatcher::Headers Dispatcher::cors_headers(const HttpRequest& request) const {
  const std::string* origin = request.header("origin");
  std::string allowed;
  bool echoed = true;
  if (cors_.allowed_origins) {
    const auto& list = *cors_.allowed_origins;
    if (origin != nullptr && std::find(list.begin(), list.end(), *origin) != list.end()) {
      allowed = *origin;
    }
  } else if (cors_.origins == "*") {
    echoed = cors_.credentials;
    allowed = !echoed ? "*" : origin != nullptr ? *origin : "";
  } else if (cors_.origins == "localhost") {
    if (origin != nullptr && is_local(*origin)) allowed = *origin;
  } else {
    allowed = cors_.origins;
    echoed = false;
  }
  Headers out;
  if (echoed) out.emplace_back("Vary", "Origin");
  if (allowed.empty()) return out;
  out.emplace_back("Access-Control-Allow-Origin", allowed);
  if (cors_.credentials) out.emplace_back("Access-Control-Allow-Credentials", "true");
  return out;
}

Dispatcher::Decision Dispatcher::decide(HttpRequest& request) const {
  if (request.method == "OPTIONS") return {preflight(), nullptr};
  const Router* const router = router_.load(std::memory_order_acquire);
  if (router == nullptr) return {refusal(503, "unavailable_error", "Loading model"), nullptr};
  const std::string asked = request.path;
  const bool below = asked.starts_with(prefix_) &&
                     (asked.size() == prefix_.size() || asked[prefix_.size()] == '/');
  if (below && !prefix_.empty()) {
    request.path = asked.size() == prefix_.size() ? "/" : asked.substr(prefix_.size());
  }
  Router::Match match = below ? router->find(request.method, request.path) : Router::Match();
  // Public paths are public only where they stand without a prefix.
  const bool is_public =
      match.handler != nullptr && match.auth == Router::Auth::Public && prefix_.empty();
  if (!keys_.empty()) {
    request.key_id = keys_.find(request);
    if (request.key_id < 0 && !is_public) {
      return {refusal(401, "authentication_error", "Invalid API Key"), nullptr};
    }
  }
  if (match.handler == nullptr && !match.allowed.empty()) {
    HttpResponse response = refusal(405, "invalid_request_error",
                                    fmt::format("{} is not a method of this path", request.method));
    response.headers.emplace_back("Allow", joined(std::move(match.allowed)));
    return {std::move(response), nullptr};
  }
  if (match.handler == nullptr) {
    return {refusal(404, "not_found_error", "no route has this path"), nullptr};
  }
  request.path_values = std::move(match.path_values);
  return {std::nullopt, match.handler};
}

}  // namespace mlxcel::serve
