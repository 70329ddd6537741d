#include "base/error.h"

#include <fmt/core.h>

namespace mlxcel {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::InvalidArgument:
      return "invalid_argument";
    case Code::NotFound:
      return "not_found";
    case Code::Unsupported:
      return "unsupported";
    case Code::ResourceExhausted:
      return "resource_exhausted";
    case Code::Cancelled:
      return "cancelled";
    case Code::Deadline:
      return "deadline";
    case Code::Corrupt:
      return "corrupt";
    case Code::Internal:
      return "internal";
  }
  return "internal";
}

Error Error::within(std::string_view context) const {
  return {code_, fmt::format("{}: {}", context, message_)};
}

namespace detail {
void check_failed(const char* file, int line, const char* expression, std::string_view message) {
  throw Error(Code::Internal,
              fmt::format("{}:{}: {} (check failed: {})", file, line, message, expression));
}
}  // namespace detail

}  // namespace mlxcel
