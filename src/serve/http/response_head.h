// Status line and headers of an answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mlxcel::serve {

struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  const std::vector<std::pair<std::string, std::string>>* headers = nullptr;
  const std::vector<std::pair<std::string, std::string>>* cors = nullptr;
  std::optional<size_t> content_length;  // unset: chunked, or until the connection closes
  bool chunked = false, close = false, http_1_0 = false;
};

/// The head with its blank line. Line breaks inside values become spaces.
std::string write_head(const ResponseHead& head);

/// Whether an answer with this status has no body.
bool bodyless(int status);

/// "1f\r\n" before a chunk of 31 bytes.
std::string chunk_head(size_t bytes);

}  // namespace mlxcel::serve
