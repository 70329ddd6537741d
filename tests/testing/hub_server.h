// A small Hugging Face hub on a local port, for download tests: model API, file tree with pages,
// resolve with redirects and ranges, and faults on demand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlxcel::testing {

struct HubRequest {
  std::string method, path, query;
  std::map<std::string, std::string> headers;  // names in lower case
  bool has(const std::string& name) const { return headers.contains(name); }
};

struct HubReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<size_t> cut_after;  // close the connection after this many body bytes
  int chunk_delay_ms = 0;           // between 4 KiB chunks of the body
};

struct HubFile {
  std::string content;
  bool lfs = false;              // SHA-256 in the tree instead of a git blob id
  std::string claimed_digest{};  // instead of the true one
  bool no_digest = false;        // leave it out of the tree
};

struct HubRepo {
  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::map<std::string, HubFile> files;
  std::string token{};  // required when set
};

class HubServer {
 public:
  struct Options {
    bool tls = false;         // a certificate of its own for 127.0.0.1 and localhost
    size_t tree_page = 1000;  // entries a page
    std::string cdn{};        // redirect large files to "<cdn>/cdn/<repo>/<file>"
  };
  HubServer();
  explicit HubServer(Options options);
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string url(const std::string& host = "127.0.0.1") const;
  const std::string& certificate_pem() const;  // with tls
  void put(const std::string& repo_id, HubRepo repo);
  /// Asked before the hub answers; nothing = the hub's own answer.
  void intercept(std::function<std::optional<HubReply>(const HubRequest&)> hook);
  /// The hub's own answer, for hooks that change it.
  HubReply answer(const HubRequest& request) const;
  std::vector<HubRequest> requests() const;  // so far
  void forget_requests();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// SHA-1 in hex of git's blob object for `content`.
std::string git_blob_sha1(const std::string& content);

}  // namespace mlxcel::testing
