// The server itself, without a model: streams, clients that leave or stop reading, draining.
#include "serve/http/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.h"

namespace mlxcel::serve {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// A client on a plain socket.
class Client {
 public:
  explicit Client(int port, int receive_buffer = 0)
      : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(descriptor_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void send(std::string_view text) const {
    ASSERT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void get(const std::string& path) const { send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }
  /// Reads until `end` has come, or the connection is over.
  std::string read_until(std::string_view end) const {
    std::string out;
    char buffer[4096];
    while (out.find(end) == std::string::npos) {
      const ssize_t n = ::recv(descriptor_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

void eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(condition());
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    router_.add("GET", "/hello", [](const std::shared_ptr<Exchange>& exchange) {
      exchange->reply(
          {.status = 200, .body = "hello", .content_type = "text/plain", .headers = {}});
    });
    router_.add("GET", "/held", [this](const std::shared_ptr<Exchange>& exchange) {
      exchange->on_close([this] { ++closed_; });
      const std::lock_guard lock(mutex_);
      held_.push_back(exchange);
    });
    router_.add("GET", "/throws", [](const std::shared_ptr<Exchange>&) {
      throw Error(Code::ResourceExhausted, "full");
    });
    dispatcher_.set_router(router_);
    options_.port = 0;
    options_.num_handlers = 4;
    options_.connection.max_queued_bytes = 1 << 20;
    server_ = HttpServer::start(options_, dispatcher_);
  }
  void TearDown() override {
    server_.reset();
    held_.clear();
  }
  std::shared_ptr<Exchange> held(size_t index) {
    eventually([&] {
      const std::lock_guard lock(mutex_);
      return held_.size() > index;
    });
    const std::lock_guard lock(mutex_);
    return held_.at(index);
  }

  Router router_;
  Dispatcher dispatcher_{{}, {}, ""};
  HttpServerOptions options_;
  std::atomic<int> closed_{0};
  std::mutex mutex_;  // guards held_
  std::vector<std::shared_ptr<Exchange>> held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ServerTest, StreamsFromAnotherThread) {
  const Client client(server_->port());
  client.get("/held");
  const auto exchange = held(0);
  exchange->begin_stream(200, "text/event-stream");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked"));
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) exchange->write("0123456789");
    exchange->finish();
  });
  const std::string body = client.read_until("0\r\n\r\n");
  writer.join();
  size_t digits = 0;
  for (size_t at = 0; (at = body.find("0123456789", at)) != std::string::npos; at += 10) ++digits;
  EXPECT_EQ(digits, 1000U);
  // The connection serves on.
  client.get("/hello");
  EXPECT_THAT(client.read_until("hello"), HasSubstr("200 OK"));
  EXPECT_EQ(closed_, 0);
}

TEST_F(ServerTest, SaysAtOnceThatAClientLeft) {
  {
    const Client client(server_->port());
    client.get("/held");
    held(0)->begin_stream(200, "t");
    client.read_until("\r\n\r\n");
  }
  eventually([&] { return closed_ == 1; });
  EXPECT_TRUE(held(0)->closed());
  held(0)->write("into the void");
  held(0)->finish();
}

TEST_F(ServerTest, CutsOffAReaderThatStops) {
  const Client slow(server_->port(), 4096);
  slow.get("/held");
  const auto exchange = held(0);
  exchange->begin_stream(200, "t");
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 400 && closed_ == 0; ++i) {
    exchange->write(block);
    const Client other(server_->port());
    other.get("/hello");
    ASSERT_THAT(other.read_until("hello"), HasSubstr("200 OK"));
  }
  eventually([&] { return closed_ == 1; });
}

TEST_F(ServerTest, HeartbeatsGoOutInSilence) {
  const Client client(server_->port());
  client.get("/held");
  held(0)->begin_stream(200, "t");
  held(0)->heartbeat(": ping\n\n", 50ms);
  EXPECT_THAT(client.read_until("ping"), HasSubstr(": ping"));
  held(0)->finish();
}

TEST_F(ServerTest, AnAbandonedStreamBreaksOff) {
  const Client client(server_->port());
  client.get("/held");
  held(0)->begin_stream(200, "t");
  {
    const std::lock_guard lock(mutex_);
    held_.clear();
  }
  EXPECT_THAT(client.read_until("\r\n0\r\n\r\n"), Not(HasSubstr("\r\n0\r\n\r\n")));
}

TEST_F(ServerTest, ErrorsHaveTheirStatus) {
  const Client client(server_->port());
  client.get("/throws");
  const std::string answer = client.read_until("unavailable_error");
  EXPECT_THAT(answer, HasSubstr("503 Service Unavailable"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
}

TEST_F(ServerTest, DrainingFinishesAnswers) {
  const Client running(server_->port());
  running.get("/held");
  const auto exchange = held(0);
  exchange->begin_stream(200, "t");
  running.read_until("\r\n\r\n");
  const Client idle(server_->port());
  server_->drain();
  EXPECT_EQ(idle.read_until("anything"), "");
  eventually([&] { return !Client(server_->port()).connected(); });
  exchange->write("last words");
  exchange->finish();
  EXPECT_THAT(running.read_until("0\r\n\r\n"), HasSubstr("last words"));
  server_->wait();
}

TEST_F(ServerTest, StoppingCutsEverybodyOff) {
  const Client running(server_->port());
  running.get("/held");
  held(0)->begin_stream(200, "t");
  server_->stop();
  running.read_until("never");
  server_->wait();
  EXPECT_EQ(closed_, 1);
  held(0)->write("late");  // the exchange outlives its server
}

TEST_F(ServerTest, ManyClientsComeAndGo) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Client client(server_->port());
        client.get(i % 3 == t % 3 ? "/held" : "/hello");
        if (i % 2 == 0) client.read_until(i % 3 == t % 3 ? "\r\n" : "hello");
        if (i % 3 == t % 3) continue;
      }
    });
    // Readers of "/held" get their answers from here.
  }
  std::atomic<bool> over{false};
  std::thread answers([&] {
    while (!over) {
      std::vector<std::shared_ptr<Exchange>> mine;
      {
        const std::lock_guard lock(mutex_);
        mine.swap(held_);
      }
      for (const auto& exchange : mine) {
        exchange->begin_stream(200, "t");
        exchange->write("x");
        exchange->finish();
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  answers.join();
  const Client last(server_->port());
  last.get("/hello");
  EXPECT_THAT(last.read_until("hello"), HasSubstr("200 OK"));
}

}  // namespace
}  // namespace mlxcel::serve
