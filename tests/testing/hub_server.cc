#include "testing/hub_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "base/json.h"
#include "base/sha256.h"
#include "testing/tls.h"

namespace mlxcel::testing {
namespace {

std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// A socket, plain or TLS.
class Connection {
 public:
  Connection(int fd, TlsContext* tls) : fd_(fd) {
    if (tls != nullptr) tls_ = tls->accept(fd);
    ok_ = tls == nullptr || tls_ != nullptr;
  }
  ~Connection() {
    tls_.reset();
    ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  bool ok() const { return ok_; }
  long read(char* data, size_t size) {
    return tls_ ? tls_->read(data, size) : ::recv(fd_, data, size, 0);
  }
  bool write(const std::string& data) {
    size_t done = 0;
    while (done < data.size()) {
      const long n = tls_ ? tls_->write(data.data() + done, data.size() - done)
                          : ::send(fd_, data.data() + done, data.size() - done, MSG_NOSIGNAL);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
  bool ok_ = false;
  std::unique_ptr<TlsStream> tls_;
};

std::optional<HubRequest> read_request(Connection& connection) {
  std::string head;
  char c = 0;
  while (!head.ends_with("\r\n\r\n")) {
    if (head.size() > 65536 || connection.read(&c, 1) != 1) return std::nullopt;
    head += c;
  }
  HubRequest request;
  const size_t space = head.find(' ');
  const size_t space2 = head.find(' ', space + 1);
  request.method = head.substr(0, space);
  std::string target = head.substr(space + 1, space2 - space - 1);
  if (const size_t q = target.find('?'); q != std::string::npos) {
    request.query = target.substr(q + 1);
    target.resize(q);
  }
  request.path = unescape(target);
  size_t line = head.find("\r\n") + 2;
  while (line < head.size()) {
    const size_t end = head.find("\r\n", line);
    const size_t colon = head.find(':', line);
    if (end == line || colon == std::string::npos || colon > end) break;
    std::string name = head.substr(line, colon - line);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
    request.headers[name] = head.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  return request;
}

bool write_reply(Connection& connection, const HubReply& reply) {
  std::string head =
      fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", reply.status, reply.body.size());
  for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!connection.write(head + "\r\n")) return false;
  const std::string body = reply.body.substr(0, reply.cut_after.value_or(reply.body.size()));
  if (reply.chunk_delay_ms == 0) return connection.write(body) && !reply.cut_after;
  for (size_t at = 0; at < body.size(); at += 4096) {
    if (!connection.write(body.substr(at, 4096))) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(reply.chunk_delay_ms));
  }
  return !reply.cut_after;
}

HubReply status_only(int status) {
  return {.status = status, .headers = {}, .body = "refused", .cut_after = {}};
}

}  // namespace

std::string git_blob_sha1(const std::string& content) {
  std::string blob = fmt::format("blob {}", content.size());
  blob += '\0';
  blob += content;
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(blob.data(), blob.size(), out, &length, EVP_sha1(), nullptr);
  return hex({out, length});
}

struct HubServer::Impl {
  Options options;
  std::unique_ptr<TlsContext> tls;
  int listener = -1;
  int port = 0;
  mutable std::mutex mutex;
  std::map<std::string, HubRepo> repos;
  std::function<std::optional<HubReply>(const HubRequest&)> hook;
  std::vector<HubRequest> log;
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  std::thread acceptor;

  std::string base() const {
    return fmt::format("{}://127.0.0.1:{}", options.tls ? "https" : "http", port);
  }
  HubReply tree(const std::string& id, const HubRepo& repo, const HubRequest& request) const;
  static HubReply content(const HubFile& file, const HubRequest& request);
  HubReply answer(const HubRequest& request) const;
  void serve(int fd, HubServer& self);
};

HubReply HubServer::Impl::tree(const std::string& id, const HubRepo& repo,
                               const HubRequest& request) const {
  size_t begin = 0;
  if (const size_t at = request.query.find("cursor="); at != std::string::npos) {
    begin = std::stoul(request.query.substr(at + 7));
  }
  Json list = Json::array();
  size_t index = 0;
  for (const auto& [name, file] : repo.files) {
    if (index >= begin && index < begin + options.tree_page) {
      Json entry = Json::object();
      entry.set("type", "file");
      entry.set("path", name);
      entry.set("size", static_cast<int64_t>(file.content.size()));
      if (!file.no_digest) {
        entry.set("oid", !file.lfs && !file.claimed_digest.empty() ? file.claimed_digest
                                                                   : git_blob_sha1(file.content));
      }
      if (file.lfs) {
        Json lfs = Json::object();
        if (!file.no_digest) {
          lfs.set("oid",
                  file.claimed_digest.empty() ? hex(sha256(file.content)) : file.claimed_digest);
        }
        lfs.set("size", static_cast<int64_t>(file.content.size()));
        entry.set("lfs", lfs);
      }
      list.push_back(std::move(entry));
    }
    ++index;
  }
  HubReply reply;
  reply.body = list.dump();
  if (begin + options.tree_page < repo.files.size()) {
    reply.headers.emplace_back(
        "Link", fmt::format("<{}/api/models/{}/tree/{}?recursive=true&cursor={}>; rel=\"next\"",
                            base(), id, repo.commit, begin + options.tree_page));
  }
  return reply;
}

HubReply HubServer::Impl::content(const HubFile& file, const HubRequest& request) {
  HubReply reply;
  reply.body = file.content;
  const auto range = request.headers.find("range");
  if (range != request.headers.end()) {
    const size_t from = std::stoul(range->second.substr(range->second.find('=') + 1));
    if (from >= file.content.size()) return status_only(416);
    reply.status = 206;
    reply.body = file.content.substr(from);
    reply.headers.emplace_back(
        "Content-Range",
        fmt::format("bytes {}-{}/{}", from, file.content.size() - 1, file.content.size()));
  }
  return reply;
}

HubReply HubServer::Impl::answer(const HubRequest& request) const {
  for (const auto& [id, repo] : repos) {
    const std::string api = "/api/models/" + id;
    const std::string resolve = "/" + id + "/resolve/" + repo.commit + "/";
    const std::string cdn = "/cdn/" + id + "/";
    const bool hub_path = request.path.starts_with(api + "/") || request.path.starts_with(resolve);
    if (hub_path && !repo.token.empty()) {
      const auto auth = request.headers.find("authorization");
      if (auth == request.headers.end() || auth->second != "Bearer " + repo.token) {
        return status_only(401);
      }
    }
    if (request.path == api + "/revision/main" ||
        request.path == api + "/revision/" + repo.commit || request.path == api + "/revision/v1") {
      HubReply reply;
      reply.body = Json::object({{"id", id}, {"sha", repo.commit}}).dump();
      return reply;
    }
    if (request.path == api + "/tree/" + repo.commit) return tree(id, repo, request);
    const bool from_cdn = request.path.starts_with(cdn);
    if (!from_cdn && !request.path.starts_with(resolve)) continue;
    const auto file = repo.files.find(request.path.substr((from_cdn ? cdn : resolve).size()));
    if (file == repo.files.end()) return status_only(404);
    if (!from_cdn && file->second.lfs && !options.cdn.empty()) {
      HubReply reply = status_only(302);
      reply.headers.emplace_back("Location", options.cdn + cdn + file->first + "?signature=secret");
      reply.headers.emplace_back("X-Linked-Etag",
                                 fmt::format("\"{}\"", hex(sha256(file->second.content))));
      return reply;
    }
    return content(file->second, request);
  }
  return status_only(404);
}

void HubServer::Impl::serve(int fd, HubServer& self) {
  Connection connection(fd, tls.get());
  if (!connection.ok()) return;
  while (!stop) {
    const auto request = read_request(connection);
    if (!request) return;
    std::function<std::optional<HubReply>(const HubRequest&)> ask;
    {
      const std::lock_guard lock(mutex);
      log.push_back(*request);
      ask = hook;
    }
    std::optional<HubReply> reply = ask ? ask(*request) : std::nullopt;
    if (!write_reply(connection, reply ? *reply : self.answer(*request))) return;
  }
}

HubServer::HubServer() : HubServer(Options{}) {}

HubServer::HubServer(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (impl_->options.tls) impl_->tls = std::make_unique<TlsContext>();
  impl_->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(impl_->listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(impl_->listener, 64) != 0 ||
      ::getsockname(impl_->listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("cannot open a local port");
  }
  impl_->port = ntohs(address.sin_port);
  impl_->acceptor = std::thread([this] {
    while (true) {
      const int fd = ::accept4(impl_->listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      timeval limit{.tv_sec = 5, .tv_usec = 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      const std::lock_guard lock(impl_->mutex);
      impl_->workers.emplace_back([this, fd] { impl_->serve(fd, *this); });
    }
  });
}

HubServer::~HubServer() {
  impl_->stop = true;
  ::shutdown(impl_->listener, SHUT_RDWR);
  impl_->acceptor.join();
  ::close(impl_->listener);
  for (std::thread& worker : impl_->workers) worker.join();
}

std::string HubServer::url(const std::string& host) const {
  return fmt::format("{}://{}:{}", impl_->options.tls ? "https" : "http", host, impl_->port);
}

const std::string& HubServer::certificate_pem() const { return impl_->tls->certificate_pem(); }

void HubServer::put(const std::string& repo_id, HubRepo repo) {
  const std::lock_guard lock(impl_->mutex);
  impl_->repos[repo_id] = std::move(repo);
}

void HubServer::intercept(std::function<std::optional<HubReply>(const HubRequest&)> hook) {
  const std::lock_guard lock(impl_->mutex);
  impl_->hook = std::move(hook);
}

HubReply HubServer::answer(const HubRequest& request) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->answer(request);
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->log;
}

void HubServer::forget_requests() {
  const std::lock_guard lock(impl_->mutex);
  impl_->log.clear();
}

}  // namespace mlxcel::testing
