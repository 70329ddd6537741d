// Methods of str that look for text: find, count, replace, split and their like.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja_builtins.h"

namespace mlxcel::text::jinja {

/// Null when there is none.
MethodFn find_search_method(std::string_view name);

/// Replaces the first `count` occurrences (negative = all) of `old`.
std::string replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                         std::string_view replacement, int64_t count);

/// str.splitlines(): at every line boundary of Unicode, kept or dropped.
std::vector<std::string_view> split_lines(Runtime& runtime, std::string_view text,
                                          bool keep_ends = false);

}  // namespace mlxcel::text::jinja
