// Errors as clients of the HTTP interface see them: one table from our codes to status and type.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "serve/http/exchange.h"

namespace mlxcel::serve {

/// One refusal: {"error": {"code": status, "message", "type", ...extra}}.
struct ApiError {
  int status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  Json extra = Json::object();  // further members of the error object, "n_ctx" for instance
};

/// By code: InvalidArgument 400, NotFound 404, Unsupported 501, ResourceExhausted 503, Deadline
/// 504, Cancelled 400, Corrupt and Internal 500. The text of the last two goes to the log under a
/// number, and clients get only the number.
ApiError to_api_error(const Error& error);

ApiError invalid_request(std::string message);
/// 501: what this server does not do, and what would make it do so.
ApiError not_supported(std::string message);
ApiError not_found(std::string message);

Json error_json(const ApiError& error);
/// The JSON answer; 503 carries Retry-After.
HttpResponse error_response(const ApiError& error);
HttpResponse json_response(const Json& body, int status = 200);

}  // namespace mlxcel::serve
