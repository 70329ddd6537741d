// Errors of generation routes: the field they are about, and the envelope of the route's protocol.
#pragma once

#include <cstdint>
#include <string_view>

#include "serve/wire/error.h"

namespace mlxcel::serve::wire {

enum class Envelope : uint8_t { OpenAi, Anthropic };

/// 400 exceed_context_size_error with both lengths.
ApiError context_exceeded(int64_t num_prompt, int64_t context_tokens);
/// InvalidArgument "'field': message".
Error bad_field(std::string_view field, std::string_view message);
/// Unsupported "'field': message".
Error unsupported_field(std::string_view field, std::string_view message);

/// {"error": {"code", "message", "type", ...}}, or Anthropic's {"type": "error", "error": ...}.
/// When the message begins with a quoted field name, "param" names it.
Json error_json(const ApiError& error, Envelope envelope);
HttpResponse error_response(const ApiError& error, Envelope envelope);

}  // namespace mlxcel::serve::wire
