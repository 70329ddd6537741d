// Values inside tool calls: balanced JSON, Python literals, typed text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/tool_calls.h"

namespace mlxcel::text::tools {

constexpr size_t kMore = SIZE_MAX;     // the value is not complete
constexpr size_t kBad = SIZE_MAX - 1;  // no such value begins here

/// End of the JSON object or list that begins at `at`.
size_t json_end(std::string_view text, size_t at);
/// End of the bracketed text that begins at `at`, with Python's quotes.
size_t bracket_end(std::string_view text, size_t at);
size_t skip_space(std::string_view text, size_t at);

/// A call written as an object: {"name": ..., "arguments": ...} and its variants.
std::optional<ToolCall> call_of_object(const Json& object);
/// Calls of a JSON object or list; nothing when one of them is not a call.
std::optional<std::vector<ToolCall>> calls_of_json(std::string_view text);
/// Calls in Python's notation: f(a=1, b="x"), several in a list or separated by commas or lines.
std::optional<std::vector<ToolCall>> calls_of_python(std::string_view text);
/// A Python literal as JSON.
std::optional<Json> python_literal(std::string_view text);

/// The schema of a parameter of `tool`; null when unknown.
const Json* parameter_schema(const Json& tools, std::string_view tool, std::string_view parameter);
/// A value written without quotes, by the declared type: strings verbatim, others as JSON, then as
/// Python, else as a string.
Json typed_value(std::string_view text, const Json* schema);

}  // namespace mlxcel::text::tools
