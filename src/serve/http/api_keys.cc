#include "serve/http/api_keys.h"

#include <fmt/core.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"

namespace mlxcel::serve {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// The key in "Bearer KEY"; the scheme's case does not matter.
std::string_view bearer(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size()) return {};
  const bool same =
      std::equal(kScheme.begin(), kScheme.end(), value.begin(), [](char want, char have) {
        return want == have || (have >= 'A' && have <= 'Z' && want == have + 32);
      });
  return same ? trimmed(value.substr(kScheme.size())) : std::string_view();
}

}  // namespace

void ApiKeys::add(std::string_view key) {
  const Digest256 digest = sha256(key);
  if (std::find(digests_.begin(), digests_.end(), digest) == digests_.end()) {
    digests_.push_back(digest);
  }
}

void ApiKeys::add_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw Error(Code::NotFound, fmt::format("--api-key-file: cannot read '{}'", path));
  }
  bool any = false;
  for (std::string line; std::getline(file, line);) {
    const std::string_view key = trimmed(line);
    if (key.empty() || key.front() == '#') continue;
    add(key);
    any = true;
  }
  if (!any) {
    throw Error(Code::InvalidArgument,
                fmt::format("--api-key-file: '{}' has no key; put one on a line", path));
  }
}

int ApiKeys::find(std::string_view key) const {
  const Digest256 wanted = sha256(key);
  int found = -1;
  for (size_t i = 0; i < digests_.size(); ++i) {
    if (CRYPTO_memcmp(digests_[i].data(), wanted.data(), wanted.size()) == 0) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

int ApiKeys::find(const HttpRequest& request) const {
  if (const std::string* value = request.header("authorization")) {
    const std::string_view key = bearer(*value);
    if (!key.empty()) {
      const int found = find(key);
      if (found >= 0) return found;
    }
  }
  if (const std::string* value = request.header("x-api-key")) return find(trimmed(*value));
  return -1;
}

}  // namespace mlxcel::serve
