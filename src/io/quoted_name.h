// How names and values from untrusted files appear in messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mlxcel::io {

/// `text` as a JSON string (ill-formed UTF-8 and control characters escaped), cut after about 160
/// bytes.
std::string quote(std::string_view text);
/// "[2, 3]".
std::string shape_text(std::span<const int64_t> dims);

}  // namespace mlxcel::io
