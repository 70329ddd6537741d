#include "io/quoted_name.h"

#include <fmt/core.h>

#include "base/json.h"
#include "base/utf8.h"

namespace mlxcel::io {

std::string quote(std::string_view text) {
  constexpr size_t kLimit = 160;
  std::string out;
  if (text.size() <= kLimit) {
    append_json_string(out, text);
    return out;
  }
  const std::string_view head = text.substr(0, kLimit);
  append_json_string(out, head.substr(0, utf8::complete_prefix(head)));
  return out + fmt::format("... ({} bytes)", text.size());
}

std::string shape_text(std::span<const int64_t> dims) {
  std::string out = "[";
  for (const int64_t d : dims) out += fmt::format("{}{}", out.size() > 1 ? ", " : "", d);
  return out + "]";
}

}  // namespace mlxcel::io
