#include "serve/http/connection.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>

#include "base/log.h"
#include "serve/http/response_head.h"
#include "serve/http/server_exchange.h"
#include "serve/wire/error.h"

namespace mlxcel::serve {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Socket = asio::generic::stream_protocol::socket;

// Bytes of further requests that are read while one is answered; more than a head may have.
constexpr size_t kReadAhead = 128 << 10;
constexpr size_t kReadBytes = 16 << 10;
// The rest of a refused body that is read and dropped to keep the connection.
constexpr uint64_t kDroppedBody = 256 << 10;
// How long a closed connection takes what the client still sends, so that the client reads the
// answer before it learns of the end.
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::seconds kHandshake{15};

/// Wakes one waiting coroutine; a set() without one is kept for the next wait().
class Event {
 public:
  explicit Event(asio::io_context& io) : timer_(io, Clock::time_point::max()) {}
  void set() {
    set_ = true;
    timer_.cancel();
  }
  awaitable<void> wait() {
    if (!set_) {
      error_code ignored;
      co_await timer_.async_wait(asio::redirect_error(use_awaitable, ignored));
    }
    set_ = false;
  }

 private:
  asio::steady_timer timer_;
  bool set_ = false;
};

/// Plain or TLS.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual awaitable<void> handshake(error_code& error) = 0;
  virtual awaitable<size_t> read(asio::mutable_buffer to, error_code& error) = 0;
  virtual awaitable<void> write(std::string_view bytes, error_code& error) = 0;
  virtual awaitable<void> close_sending() = 0;
  virtual void close() = 0;
};

class PlainStream final : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}
  awaitable<void> handshake(error_code&) override { co_return; }
  awaitable<size_t> read(asio::mutable_buffer to, error_code& error) override {
    co_return co_await socket_.async_read_some(to, asio::redirect_error(use_awaitable, error));
  }
  awaitable<void> write(std::string_view bytes, error_code& error) override {
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    co_await asio::async_write(socket_, buffer, asio::redirect_error(use_awaitable, error));
  }
  awaitable<void> close_sending() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    co_return;
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

class TlsStream final : public Stream {
 public:
  TlsStream(Socket socket, asio::ssl::context& tls) : stream_(std::move(socket), tls) {}
  awaitable<void> handshake(error_code& error) override {
    co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                     asio::redirect_error(use_awaitable, error));
  }
  awaitable<size_t> read(asio::mutable_buffer to, error_code& error) override {
    co_return co_await stream_.async_read_some(to, asio::redirect_error(use_awaitable, error));
  }
  awaitable<void> write(std::string_view bytes, error_code& error) override {
    const asio::const_buffer buffer(bytes.data(), bytes.size());
    co_await asio::async_write(stream_, buffer, asio::redirect_error(use_awaitable, error));
  }
  awaitable<void> close_sending() override {
    error_code ignored;
    co_await stream_.async_shutdown(asio::redirect_error(use_awaitable, ignored));
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  asio::ssl::stream<Socket> stream_;
};

class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(ConnectionContext& context, std::unique_ptr<Stream> stream, std::string client,
                 std::function<void(Connection*)> on_end)
      : context_(context),
        stream_(std::move(stream)),
        client_(std::move(client)),
        on_end_(std::move(on_end)),
        wake_(context.io),
        room_(context.io) {}

  void start() { asio::co_spawn(context_.io, run(shared_from_this()), asio::detached); }

  void tick(Clock::time_point now) override {
    if (now >= deadline_) {
      log::debug("{}: timed out", client_);
      close();
      return;
    }
    if (exchange_) exchange_->tick(now);
  }

  void drain() override {
    if (!exchange_ && !sending_) close();
  }

  void close() override {
    if (closing_) return;
    closing_ = true;
    stream_->close();
    if (exchange_) exchange_->client_gone();
    wake_.set();
    room_.set();
  }

 private:
  static awaitable<void> run(std::shared_ptr<HttpConnection> self) {
    try {
      if (co_await self->shake_hands()) {
        asio::co_spawn(self->context_.io, read_loop(self), asio::detached);
        while (co_await self->serve_one()) {
        }
        co_await self->linger();
      }
    } catch (const std::exception& e) {
      log::warn("{}: connection ended: {}", self->client_, e.what());
    }
    self->close();
    if (self->exchange_) self->exchange_->detach();
    self->on_end_(self.get());
  }

  awaitable<bool> shake_hands() {
    error_code error;
    deadline_ = Clock::now() + kHandshake;
    co_await stream_->handshake(error);
    if (error) log::debug("{}: handshake failed: {}", client_, error.message());
    co_return !error && !closing_;
  }

  /// Reads all the time, so that a client's leaving is seen while its request is worked on.
  static awaitable<void> read_loop(std::shared_ptr<HttpConnection> self) {
    HttpConnection& c = *self;
    std::string scratch(kReadBytes, '\0');
    while (!c.closing_) {
      if (c.unread().size() >= kReadAhead && !c.lingering_) {
        co_await c.room_.wait();
        continue;
      }
      error_code error;
      const asio::mutable_buffer buffer(scratch.data(), scratch.size());
      const size_t n = co_await c.stream_->read(buffer, error);
      if (error) {
        c.input_over_ = true;
        // A reset is final; after an orderly end the client may still read.
        if (error != asio::error::eof) c.close();
        if (c.exchange_) c.exchange_->client_gone();
        c.wake_.set();
        co_return;
      }
      if (c.lingering_) continue;
      c.in_.append(scratch.data(), n);
      c.wake_.set();
    }
  }

  std::string_view unread() const { return std::string_view(in_).substr(in_begin_); }

  void consume(size_t n) {
    in_begin_ += n;
    if (in_begin_ == in_.size()) {
      in_.clear();
      in_begin_ = 0;
      if (in_.capacity() > kReadAhead) in_.shrink_to_fit();
    } else if (in_begin_ > kReadAhead) {
      in_.erase(0, in_begin_);
      in_begin_ = 0;
    }
    room_.set();
  }

  /// Waits for bytes behind the first `have` unread ones; false when none will come.
  awaitable<bool> more_input(size_t have) {
    while (unread().size() <= have && !input_over_ && !closing_) co_await wake_.wait();
    co_return !closing_ && unread().size() > have;
  }

  struct Received {
    bool answer = false;  // there is something to answer
    bool keep = true;     // and then to read another request
    Dispatcher::Decision decision;
  };

  /// Reads one request into `parser`, deciding about it as soon as its head is there.
  awaitable<Received> receive(RequestParser& parser) {
    Received out;
    bool decided = false;
    deadline_ = Clock::now() + context_.options.idle_timeout;
    bool timing_head = false;
    while (true) {
      const size_t used = parser.feed(unread());
      consume(used);
      if (parser.started() && !timing_head) {
        timing_head = true;
        deadline_ = Clock::now() + context_.options.head_timeout;
      }
      if (parser.problem()) {
        out.answer = true;
        out.keep = false;
        out.decision.response = refusal(*parser.problem());
        co_return out;
      }
      if (parser.head_done() && !decided) {
        decided = true;
        parser.request().client = client_;
        out.decision = context_.dispatcher.decide(parser.request());
        if (!co_await body_wanted(parser, out)) co_return out;
        deadline_ = Clock::now() + context_.options.io_timeout;
        continue;
      }
      if (parser.done()) {
        out.answer = true;
        out.keep = out.keep && parser.keep_alive();
        co_return out;
      }
      if (used > 0 && parser.head_done()) deadline_ = Clock::now() + context_.options.io_timeout;
      if (!co_await more_input(unread().size())) co_return out;
    }
  }

  /// Whether to read the body; false when the answer is due without it.
  awaitable<bool> body_wanted(RequestParser& parser, Received& out) {
    if (out.decision.response) {
      const auto length = parser.content_length();
      if (!length || *length > kDroppedBody || (parser.expects_continue() && *length > 0)) {
        out.answer = true;
        out.keep = false;
        co_return false;
      }
    } else if (parser.expects_continue() && !parser.http_1_0()) {
      error_code error;
      co_await stream_->write("HTTP/1.1 100 Continue\r\n\r\n", error);
      if (error) co_return false;
    }
    co_return true;
  }

  static HttpResponse refusal(const RequestParser::Problem& problem) {
    return error_response({.status = problem.status,
                           .type = "invalid_request_error",
                           .message = problem.message,
                           .extra = {}});
  }

  /// One request and its answer; false when the connection is to be closed.
  awaitable<bool> serve_one() {
    RequestParser parser(context_.options.parser);
    Received received = co_await receive(parser);
    if (!received.answer || closing_) co_return false;
    const auto begin = Clock::now();
    const bool http_1_0 = parser.head_done() && parser.http_1_0();
    HttpRequest request = parser.done() ? parser.take() : std::move(parser.request());
    const Dispatcher::Headers cors = context_.dispatcher.cors_headers(request);
    const std::weak_ptr<HttpConnection> weak = weak_from_this();
    exchange_ = std::make_shared<ExchangeCore>(
        std::move(request), context_.options.max_queued_bytes, [weak, &io = context_.io] {
          asio::post(io, [weak] {
            if (const auto self = weak.lock()) self->woken();
          });
        });
    if (received.decision.response) {
      exchange_->reply(std::move(*received.decision.response));
    } else {
      if (input_over_) exchange_->client_gone();
      auto handle = std::make_shared<ServerExchange>(exchange_);
      context_.run([handler = received.decision.handler, handle = std::move(handle)] {
        run_handler(*handler, handle);
      });
    }
    deadline_ = Clock::time_point::max();
    const bool keep = co_await send_answer(cors, http_1_0, received.keep, begin);
    exchange_->client_gone();
    exchange_->detach();
    exchange_.reset();
    co_return keep && !closing_ && !context_.draining;
  }

  void woken() {
    if (exchange_ && exchange_->overflowed() && !closing_) {
      log::warn("{}: reads too slowly, disconnected", client_);
      close();
    }
    wake_.set();
  }

  /// Sends what the handler gives until it is complete; false when the connection cannot be used
  /// again.
  awaitable<bool> send_answer(const Dispatcher::Headers& cors, bool http_1_0, bool keep,
                              Clock::time_point begin) {
    const bool head_only = exchange_->request().method == "HEAD";
    bool chunked = false;
    bool silent = head_only;
    int status = 0;
    size_t sent = 0;
    while (!closing_) {
      ExchangeCore::Pending part = exchange_->take();
      if (part.overflow || part.aborted) {
        keep = false;
        close();
        break;
      }
      std::string out;
      if (part.head) {
        status = part.status;
        keep = keep && !context_.draining && !(part.stream && http_1_0);
        chunked = part.stream && !http_1_0;
        silent = head_only || bodyless(part.status);
        ResponseHead head;
        head.status = part.status;
        head.content_type = part.content_type;
        head.headers = &part.headers;
        head.cors = &cors;
        if (!part.stream) head.content_length = part.body.size();
        head.chunked = chunked && !silent;
        head.close = !keep;
        head.http_1_0 = http_1_0;
        out = write_head(head);
      }
      sent += part.body.size();
      if (!silent) append_body(out, part, chunked);
      if (!out.empty()) {
        error_code error;
        sending_ = true;
        deadline_ = Clock::now() + context_.options.io_timeout;
        co_await stream_->write(out, error);
        deadline_ = Clock::time_point::max();
        sending_ = false;
        if (error) {
          close();
          break;
        }
      }
      if (part.complete) break;
      if (out.empty()) co_await wake_.wait();
    }
    report(status, sent, begin);
    co_return keep && !closing_;
  }

  static void append_body(std::string& out, const ExchangeCore::Pending& part, bool chunked) {
    if (!chunked) {
      out += part.body;
      return;
    }
    if (!part.body.empty()) {
      out += chunk_head(part.body.size());
      out += part.body;
      out += "\r\n";
    }
    if (part.complete) out += "0\r\n\r\n";
  }

  /// One line of the access log. Queries and headers may hold secrets and stay out.
  void report(int status, size_t bytes, Clock::time_point begin) const {
    if (!log::enabled(log::Level::Info)) return;
    const HttpRequest& request = exchange_->request();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    if (status == 0) {
      log::info("{} {} {} left before the answer, {:.1f} ms", client_, request.method, request.path,
                ms);
    } else {
      log::info("{} {} {} {} {} bytes {:.1f} ms", client_, request.method, request.path, status,
                bytes, ms);
    }
  }

  awaitable<void> linger() {
    if (closing_) co_return;
    lingering_ = true;
    room_.set();
    deadline_ = Clock::now() + kLinger;
    co_await stream_->close_sending();
    while (!input_over_ && !closing_) co_await wake_.wait();
  }

  ConnectionContext& context_;
  std::unique_ptr<Stream> stream_;
  const std::string client_;
  std::function<void(Connection*)> on_end_;
  Event wake_;  // the serving coroutine: input, output or closing
  Event room_;  // the reading coroutine: bytes were consumed
  std::string in_;
  size_t in_begin_ = 0;
  std::shared_ptr<ExchangeCore> exchange_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool input_over_ = false, closing_ = false, lingering_ = false, sending_ = false;
};

}  // namespace

std::shared_ptr<Connection> open_connection(ConnectionContext& context, int descriptor,
                                            int address_family, std::string client,
                                            std::function<void(Connection*)> on_end) {
  Socket socket(context.io);
  socket.assign(asio::generic::stream_protocol(address_family, 0), descriptor);
  std::unique_ptr<Stream> stream;
  if (context.tls != nullptr) {
    stream = std::make_unique<TlsStream>(std::move(socket), *context.tls);
  } else {
    stream = std::make_unique<PlainStream>(std::move(socket));
  }
  auto connection = std::make_shared<HttpConnection>(context, std::move(stream), std::move(client),
                                                     std::move(on_end));
  connection->start();
  return connection;
}

}  // namespace mlxcel::serve
