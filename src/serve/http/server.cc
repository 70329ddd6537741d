#include "serve/http/server.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"

namespace mlxcel::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using asio::ip::tcp;
using Local = asio::local::stream_protocol;

constexpr std::chrono::milliseconds kTick{200};
// After accept() failed for want of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};

/// As many descriptors as the system lets this process have: each connection takes one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::unique_ptr<asio::ssl::context> make_tls(const HttpServerOptions& options) {
  if (options.tls_cert_file.empty() && options.tls_key_file.empty()) return nullptr;
  if (options.tls_cert_file.empty() || options.tls_key_file.empty()) {
    throw Error(Code::InvalidArgument,
                "TLS needs both --ssl-cert-file and --ssl-key-file; only one was given");
  }
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  const auto check = [&](const char* flag, const std::string& path) {
    if (!error) return;
    throw Error(Code::InvalidArgument,
                fmt::format("{}: '{}' cannot be used: {}", flag, path, error.message()));
  };
  tls->use_certificate_chain_file(options.tls_cert_file, error);
  check("--ssl-cert-file", options.tls_cert_file);
  tls->use_private_key_file(options.tls_key_file, asio::ssl::context::pem, error);
  check("--ssl-key-file", options.tls_key_file);
  return tls;
}

bool is_unix_path(const std::string& host) { return host.ends_with(".sock"); }

/// Removes what an earlier server left under this name; anything but a socket stays.
void remove_stale_socket(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (!S_ISSOCK(info.st_mode)) {
    throw Error(Code::InvalidArgument, fmt::format("--host: '{}' exists and is no socket", path));
  }
  asio::io_context io;
  Local::socket probe(io);
  error_code error;
  probe.connect(Local::endpoint(path), error);
  if (!error) {
    throw Error(Code::InvalidArgument, fmt::format("--host: another server listens on '{}'", path));
  }
  ::unlink(path.c_str());
}

std::string client_name(const tcp::endpoint& peer) { return peer.address().to_string(); }
std::string client_name(const Local::endpoint&) { return "unix"; }

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const HttpServerOptions& o, const Dispatcher& dispatcher)
      : options(o),
        tls(make_tls(o)),
        pool(static_cast<size_t>(std::max(1, o.num_handlers))),
        ticker(io),
        pause(io),
        signals(io),
        context{io,           dispatcher,
                o.connection, [this](std::function<void()> fn) {
                  asio::post(pool, std::move(fn)); },
                tls.get(),    false} {}

  void listen() {
    if (is_unix_path(options.host)) {
      remove_stale_socket(options.host);
      try {
        unix_acceptor.emplace(io, Local::endpoint(options.host));
      } catch (const boost::system::system_error& e) {
        throw Error(Code::InvalidArgument, fmt::format("--host: cannot listen on '{}': {}",
                                                       options.host, e.code().message()));
      }
      url = "unix:" + options.host;
      return;
    }
    error_code error;
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty()) {
      throw Error(Code::InvalidArgument,
                  fmt::format("--host: '{}' is no address of this machine", options.host));
    }
    tcp_acceptor.emplace(io);
    // A name like "localhost" stands for both kinds of address; most clients try the older one.
    tcp::endpoint chosen = found.begin()->endpoint();
    for (const auto& entry : found) {
      if (entry.endpoint().address().is_v4()) {
        chosen = entry.endpoint();
        break;
      }
    }
    bind(chosen);
    port = tcp_acceptor->local_endpoint().port();
    const bool v6 = options.host.find(':') != std::string::npos;
    url = fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", v6 ? "[" : "", options.host,
                      v6 ? "]" : "", port);
  }

  void bind(const tcp::endpoint& endpoint) {
    error_code error;
    tcp_acceptor->open(endpoint.protocol(), error);
    if (!error) tcp_acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && options.reuse_port) {
      const int on = 1;
      if (::setsockopt(tcp_acceptor->native_handle(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) !=
          0) {
        error.assign(errno, boost::system::system_category());
      }
    }
    if (!error) tcp_acceptor->bind(endpoint, error);
    if (!error) tcp_acceptor->listen(1024, error);
    if (error) {
      throw Error(Code::InvalidArgument, fmt::format("cannot listen on {}:{}: {}", options.host,
                                                     options.port, error.message()));
    }
  }

  template <class Acceptor>
  void accept(Acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](const error_code& error, auto socket) {
      if (!acceptor.is_open()) return;
      if (error) {
        log::warn("cannot accept a connection: {}", error.message());
        pause.expires_after(kAcceptPause);
        pause.async_wait([this, &acceptor](const error_code& stopped) {
          if (!stopped && acceptor.is_open()) accept(acceptor);
        });
        return;
      }
      open(std::move(socket));
      accept(acceptor);
    });
  }

  template <class Accepted>
  void open(Accepted socket) {
    error_code error;
    const auto peer = socket.remote_endpoint(error);
    if (error) return;  // gone already
    std::string client = client_name(peer);
    const int family = peer.protocol().family();
    if (family != AF_UNIX) {
      const int on = 1;
      ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    const int descriptor = socket.release(error);
    if (error) return;
    auto connection = open_connection(context, descriptor, family, std::move(client),
                                      [this](Connection* over) { ended(over); });
    connections.emplace(connection.get(), connection);
    if (connections.size() == 1) tick();
  }

  void ended(Connection* connection) {
    connections.erase(connection);
    if (context.draining) finish_if_idle();
  }

  void tick() {
    ticker.expires_after(kTick);
    ticker.async_wait([this](const error_code& stopped) {
      if (stopped || connections.empty()) return;
      const auto now = Clock::now();
      for (const auto& connection : all()) connection->tick(now);
      if (!connections.empty()) tick();
    });
  }

  /// A copy, because what is done to connections may end them.
  std::vector<std::shared_ptr<Connection>> all() const {
    std::vector<std::shared_ptr<Connection>> out;
    out.reserve(connections.size());
    for (const auto& [key, connection] : connections) out.push_back(connection);
    return out;
  }

  void start_draining() {
    if (context.draining) return;
    context.draining = true;
    error_code ignored;
    if (tcp_acceptor) tcp_acceptor->close(ignored);
    if (unix_acceptor) {
      unix_acceptor->close(ignored);
      ::unlink(options.host.c_str());
    }
    pause.cancel();
    for (const auto& connection : all()) connection->drain();
    finish_if_idle();
  }

  void finish_if_idle() {
    if (!connections.empty()) return;
    ticker.cancel();
    signals.cancel();
    work.reset();
  }

  void wait_for_signal(std::function<void(int)> handler, int count) {
    signals.async_wait([this, handler = std::move(handler), count](const error_code& stopped, int) {
      if (stopped) return;
      handler(count);
      wait_for_signal(handler, count + 1);
    });
  }

  HttpServerOptions options;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io{1};
  asio::thread_pool pool;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work{io.get_executor()};
  asio::steady_timer ticker, pause;
  asio::signal_set signals;
  ConnectionContext context;
  std::optional<tcp::acceptor> tcp_acceptor;
  std::optional<Local::acceptor> unix_acceptor;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::string url;
  int port = 0;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<HttpServer> HttpServer::start(const HttpServerOptions& options,
                                              const Dispatcher& dispatcher) {
  raise_descriptor_limit();
  auto impl = std::make_unique<Impl>(options, dispatcher);
  impl->listen();
  if (impl->tcp_acceptor) impl->accept(*impl->tcp_acceptor);
  if (impl->unix_acceptor) impl->accept(*impl->unix_acceptor);
  impl->thread = std::thread([i = impl.get()] {
    while (true) {
      try {
        i->io.run();
        return;
      } catch (const std::exception& e) {
        log::error("http thread: {}", e.what());
      }
    }
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
  stop();
  wait();
}

const std::string& HttpServer::url() const { return impl_->url; }
int HttpServer::port() const { return impl_->port; }

void HttpServer::on_signal(std::function<void(int)> handler) {
  asio::post(impl_->io, [this, handler = std::move(handler)] {
    impl_->signals.add(SIGINT);
    impl_->signals.add(SIGTERM);
    impl_->wait_for_signal(handler, 1);
  });
}

void HttpServer::drain() {
  asio::post(impl_->io, [i = impl_.get()] { i->start_draining(); });
}

void HttpServer::stop() {
  asio::post(impl_->io, [i = impl_.get()] {
    i->start_draining();
    for (const auto& connection : i->all()) connection->close();
  });
}

void HttpServer::wait() {
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->pool.join();
}

}  // namespace mlxcel::serve
