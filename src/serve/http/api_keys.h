// The keys that clients may show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "serve/http/exchange.h"

namespace mlxcel::serve {

/// Keeps digests only. Immutable after filling.
class ApiKeys {
 public:
  void add(std::string_view key);
  /// One key a line; blank lines and lines that begin with '#' are skipped. Throws NotFound naming
  /// a file that cannot be read, InvalidArgument for one without any key.
  void add_file(const std::string& path);
  bool empty() const { return digests_.empty(); }
  size_t size() const { return digests_.size(); }

  /// Index of the key in "Authorization: Bearer" or "X-Api-Key", or -1. Takes the same time for
  /// every wrong key.
  int find(const HttpRequest& request) const;

 private:
  int find(std::string_view key) const;
  std::vector<Digest256> digests_;
};

}  // namespace mlxcel::serve
