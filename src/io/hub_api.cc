#include "io/hub_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "io/hub_names.h"

namespace mlxcel::io {
namespace {

constexpr int kMaxPages = 200;
constexpr size_t kMaxFiles = 100'000;
constexpr int64_t kMaxFileBytes = int64_t{1} << 44;

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

HttpResponse get_json_text(HttpClient& client, const std::string& url, const RetryPolicy& retry,
                           std::string_view what) {
  for (int attempt = 0;; ++attempt) {
    HttpResponse response = client.get_text(url);
    if (response.ok()) return response;
    if (!RetryPolicy::transient(response) || attempt >= retry.max_retries) {
      refuse(response, client, what);
    }
    retry.wait(attempt, response);
  }
}

Json parse_answer(const HttpResponse& response) {
  Result<Json> parsed = Json::parse(response.body);
  if (parsed.ok()) return std::move(parsed).value();
  throw Error(Code::Corrupt, fmt::format("{} answers with something that is no JSON: {}",
                                         url_for_messages(response.url), parsed.error().what()));
}

/// The target of rel="next" in a Link header (RFC 8288), empty when there is none.
std::string next_page(std::string_view link) {
  while (!link.empty()) {
    const size_t open = link.find('<');
    const size_t close = link.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const std::string_view target = link.substr(open + 1, close - open - 1);
    link.remove_prefix(close + 1);
    const std::string_view parameters = link.substr(0, link.find('<'));
    if (parameters.find("rel=\"next\"") != std::string_view::npos) return std::string(target);
  }
  return {};
}

const std::string* string_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? &value->as_string() : nullptr;
}

RemoteFile read_entry(const Json& entry, const std::string& repo_id) {
  RemoteFile file;
  const std::string* path = string_at(entry, "path");
  const Json* lfs = entry.find("lfs");
  const bool large = lfs != nullptr && lfs->is_object();
  const Json* size = large ? lfs->find("size") : entry.find("size");
  if (path == nullptr || size == nullptr || !size->is_int() || size->as_int() < 0 ||
      size->as_int() > kMaxFileBytes) {
    throw Error(Code::Corrupt, fmt::format("the hub's file list of {} has an entry without a path "
                                           "or with an impossible size",
                                           repo_id));
  }
  check_repo_file_name(*path, repo_id);
  file.name = *path;
  file.size = static_cast<uint64_t>(size->as_int());
  const std::string* oid = string_at(large ? *lfs : entry, "oid");
  if (oid != nullptr) {
    std::string digest = *oid;
    if (digest.starts_with("sha256:")) digest.erase(0, 7);
    if (!is_hex(digest) || digest.size() != (large ? 64U : 40U)) {
      throw Error(Code::Corrupt,
                  fmt::format("the hub's file list of {} has an unreadable digest for '{}'",
                              repo_id, file.name));
    }
    (large ? file.sha256 : file.git_sha1) = digest;
  }
  return file;
}

void read_page(const Json& page, RemoteRepo& repo) {
  if (!page.is_array()) {
    throw Error(Code::Corrupt, fmt::format("the hub's file list of {} is no list", repo.repo_id));
  }
  for (const Json& entry : page.as_array()) {
    const std::string* type = string_at(entry, "type");
    if (type != nullptr && *type != "file") continue;
    repo.files.push_back(read_entry(entry, repo.repo_id));
  }
  if (repo.files.size() > kMaxFiles) {
    throw Error(Code::ResourceExhausted,
                fmt::format("repository {} has more than {} files", repo.repo_id, kMaxFiles));
  }
}

}  // namespace

bool RetryPolicy::transient(const HttpResponse& r) {
  return !r.transport_error.empty() || r.status == 408 || r.status == 429 || r.status >= 500;
}

void RetryPolicy::wait(int retry, const HttpResponse& response) const {
  int64_t ms = int64_t{delay_ms} << std::min(retry, 6);
  const std::string_view after = response.header("retry-after");
  int64_t seconds = 0;
  const auto [end, ec] = std::from_chars(after.data(), after.data() + after.size(), seconds);
  if (ec == std::errc() && end == after.data() + after.size() && seconds >= 0) {
    ms = std::max(ms, std::min<int64_t>(seconds, 60) * 1000);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

RemoteRepo list_repository(HttpClient& client, const std::string& repo_id,
                           const std::string& revision, const RetryPolicy& retry) {
  const std::string wanted = revision.empty() ? "main" : revision;
  const std::string api = fmt::format("{}/api/models/{}", client.options().endpoint, repo_id);
  const std::string what = fmt::format("{} (revision {})", repo_id, wanted);
  RemoteRepo repo;
  repo.repo_id = repo_id;

  // A '/' inside a revision is part of one URL segment.
  std::string segment;
  for (const char c : url_path(wanted)) segment += c == '/' ? "%2F" : std::string(1, c);
  const Json info = parse_answer(get_json_text(client, api + "/revision/" + segment, retry, what));
  const std::string* sha = string_at(info, "sha");
  if (sha == nullptr || !is_hex(*sha) || (sha->size() != 40 && sha->size() != 64)) {
    throw Error(Code::Corrupt, fmt::format("the hub names no commit for {}", what));
  }
  repo.commit = *sha;

  std::string url = fmt::format("{}/tree/{}?recursive=true", api, repo.commit);
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("the hub's file list of {} has more than {} pages", repo_id, page));
    }
    const HttpResponse response = get_json_text(client, url, retry, what);
    read_page(parse_answer(response), repo);
    url = next_page(response.header("link"));
  }
  return repo;
}

std::string file_url(const HttpClient& client, const RemoteRepo& repo, const RemoteFile& file) {
  return fmt::format("{}/{}/resolve/{}/{}", client.options().endpoint, repo.repo_id, repo.commit,
                     url_path(file.name));
}

void refuse(const HttpResponse& response, const HttpClient& client, std::string_view what) {
  const std::string endpoint = url_for_messages(client.options().endpoint);
  const bool with_token = !client.options().token.empty();
  if (!response.transport_error.empty() || response.status == 0) {
    throw Error(Code::Deadline,
                fmt::format("cannot get {} from {}: {}. Check the connection; what has arrived is "
                            "kept and the next attempt goes on from there",
                            what, endpoint, response.transport_error));
  }
  switch (response.status) {
    case 401:
    case 403:
      throw Error(Code::InvalidArgument,
                  with_token
                      ? fmt::format("the token has no access to {} on {} (HTTP {}): accept the "
                                    "terms on the model's page or use another token",
                                    what, endpoint, response.status)
                      : fmt::format("{} does not exist on {} or needs a token (HTTP {}): check the "
                                    "name, or give --token or HF_TOKEN",
                                    what, endpoint, response.status));
    case 404:
      throw Error(Code::NotFound,
                  fmt::format("{} does not exist on {} (HTTP 404): check the name and the revision",
                              what, endpoint));
    default:
      throw Error(response.status >= 500 ? Code::Deadline : Code::InvalidArgument,
                  fmt::format("{} answers HTTP {} for {}", endpoint, response.status, what));
  }
}

}  // namespace mlxcel::io
