#include "serve/wire/error.h"

#include <fmt/core.h>

#include <atomic>

#include "base/log.h"

namespace mlxcel::serve {
namespace {

struct Row {
  int status;
  const char* type;
};

Row row_of(Code code) {
  switch (code) {
    case Code::InvalidArgument:
      return {400, "invalid_request_error"};
    case Code::NotFound:
      return {404, "not_found_error"};
    case Code::Unsupported:
      return {501, "not_supported_error"};
    case Code::ResourceExhausted:
      return {503, "unavailable_error"};
    case Code::Cancelled:
      return {400, "cancelled"};
    case Code::Deadline:
      return {504, "server_timeout"};
    case Code::Corrupt:
    case Code::Internal:
      break;
  }
  return {500, "server_error"};
}

}  // namespace

ApiError to_api_error(const Error& error) {
  const Row row = row_of(error.code());
  ApiError out{.status = row.status, .type = row.type, .message = error.message(), .extra = {}};
  if (row.status == 500) {
    static std::atomic<uint64_t> last{0};
    const uint64_t number = ++last;
    log::error("incident {}: {}: {}", number, code_name(error.code()), error.message());
    out.message = fmt::format("internal error; the server's log has it as incident {}", number);
  }
  return out;
}

ApiError invalid_request(std::string message) {
  return {
      .status = 400, .type = "invalid_request_error", .message = std::move(message), .extra = {}};
}

ApiError not_supported(std::string message) {
  return {.status = 501, .type = "not_supported_error", .message = std::move(message), .extra = {}};
}

ApiError not_found(std::string message) {
  return {.status = 404, .type = "not_found_error", .message = std::move(message), .extra = {}};
}

Json error_json(const ApiError& error) {
  Json body =
      Json::object({{"code", error.status}, {"message", error.message}, {"type", error.type}});
  if (error.extra.is_object()) {
    for (const auto& [key, value] : error.extra.as_object()) body.set(key, value);
  }
  return Json::object({{"error", std::move(body)}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response = json_response(error_json(error), error.status);
  if (error.status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse json_response(const Json& body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = body.dump();
  return response;
}

}  // namespace mlxcel::serve
