#include "serve/routes_admin.h"

#include <fmt/core.h>

#include "serve/wire/error.h"

namespace mlxcel::serve {
namespace {

void add_both(Router& router, const std::string& method, const std::string& path,
              const Handler& handler, Router::Auth auth = Router::Auth::Key) {
  router.add(method, path, handler, auth);
  router.add(method, "/v1" + path, handler, auth);
}

HttpResponse answer_health(const ServerState& state) {
  return json_response(
      Json::object({{"status", "ok"}, {"context_size", state.model.engine->context_tokens()}}));
}

}  // namespace

void add_admin_routes(Router& router, ServerState& state) {
  add_both(
      router, "GET", "/health",
      [&state](const std::shared_ptr<Exchange>& exchange) {
        exchange->reply(answer_health(state));
      },
      Router::Auth::Public);
}

}  // namespace mlxcel::serve
