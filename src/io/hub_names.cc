#include "io/hub_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/env.h"
#include "base/error.h"
#include "io/hub.h"

namespace mlxcel::io {
namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_name_char(char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; }

bool is_name_part(std::string_view part) {
  return !part.empty() && part.size() <= 255 && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), is_name_char);
}

/// Calls accept(part) for every '/'-separated part; false when one is refused.
template <class Accept>
bool all_parts(std::string_view text, Accept accept) {
  while (true) {
    const size_t slash = text.find('/');
    if (!accept(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

}  // namespace

bool is_repo_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_name_part(text.substr(0, slash)) &&
         is_name_part(text.substr(slash + 1));
}

void check_revision(std::string_view revision) {
  if (!all_parts(revision, is_name_part)) {
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' is no revision: give a branch, a tag or a commit", revision));
  }
}

void check_repo_file_name(std::string_view name, std::string_view repo_id) {
  const auto safe = [](std::string_view part) {
    return !part.empty() && part.size() <= 200 && part != "." && part != ".." &&
           std::none_of(part.begin(), part.end(), [](char c) {
             const auto u = static_cast<unsigned char>(c);
             return u < 0x20 || u == 0x7F || c == '\\';
           });
  };
  if (name.size() > 1024 || !all_parts(name, safe)) {
    throw Error(Code::InvalidArgument,
                fmt::format("repository {} names a file that would leave its folder or cannot be "
                            "stored: '{}'; nothing of it is downloaded",
                            repo_id, name.substr(0, 300)));
  }
}

std::string url_path(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_name_char(c) || c == '~' || c == '/') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string url_for_messages(std::string_view url) {
  std::string out(url.substr(0, url.find_first_of("?#")));
  // A user name and password end at the last '@' of the authority.
  const size_t scheme = out.find("://");
  const size_t authority = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t at = out.substr(0, out.find('/', authority)).rfind('@');
  if (at != std::string::npos && at >= authority) out.erase(authority, at + 1 - authority);
  return out;
}

std::string with_default_org(std::string_view name) {
  const std::string org = env::get("MLXCEL_DEFAULT_ORG").value_or("mlx-community");
  std::string repo_id = fmt::format("{}/{}", org, name);
  if (!is_repo_id(repo_id)) {
    throw Error(Code::InvalidArgument,
                fmt::format("MLXCEL_DEFAULT_ORG is '{}', which is no owner on a hub", org));
  }
  return repo_id;
}

bool is_model_file(std::string_view name) {
  static constexpr std::array<std::string_view, 7> kExtensions = {
      ".safetensors", ".gguf", ".json", ".jinja", ".model", ".tiktoken", ".txt"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view e) { return name.ends_with(e); });
}

}  // namespace mlxcel::io
