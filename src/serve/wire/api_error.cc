#include "serve/wire/api_error.h"

#include <fmt/core.h>

namespace mlxcel::serve::wire {
namespace {

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiError context_exceeded(int64_t num_prompt, int64_t context_tokens) {
  return {
      .status = 400,
      .type = "exceed_context_size_error",
      .message = fmt::format("the request ({} tokens) exceeds the available context size ({} "
                             "tokens); shorten it or start the server with a larger --ctx-size",
                             num_prompt, context_tokens),
      .extra = Json::object({{"n_prompt_tokens", num_prompt}, {"n_ctx", int64_t{context_tokens}}})};
}

Error bad_field(std::string_view field, std::string_view message) {
  return {Code::InvalidArgument, fmt::format("'{}': {}", field, message)};
}

Error unsupported_field(std::string_view field, std::string_view message) {
  return {Code::Unsupported, fmt::format("'{}': {}", field, message)};
}

Json error_json(const ApiError& error, Envelope envelope) {
  const std::string_view message = error.message;
  if (envelope == Envelope::OpenAi) {
    Json out = serve::error_json(error);
    const size_t end = message.starts_with('\'') ? message.find('\'', 1) : std::string_view::npos;
    if (end != std::string_view::npos) out.find("error")->set("param", message.substr(1, end - 1));
    return out;
  }
  Json inner = Json::object({{"type", anthropic_type(error.status)}, {"message", message}});
  if (error.extra.is_object()) {
    for (const auto& [key, value] : error.extra.as_object()) inner.set(key, value);
  }
  return Json::object({{"type", "error"}, {"error", std::move(inner)}});
}

HttpResponse error_response(const ApiError& error, Envelope envelope) {
  HttpResponse response = serve::error_response(error);
  response.body = error_json(error, envelope).dump();
  return response;
}

}  // namespace mlxcel::serve::wire
