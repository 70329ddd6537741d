// The hand-over between handlers and a connection.
#include <gmock/gmock.h>

#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "serve/http/server_exchange.h"

namespace mlxcel::serve {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Pair {
  int wakes = 0;
  std::shared_ptr<ExchangeCore> core =
      std::make_shared<ExchangeCore>(HttpRequest{}, 100, [this] { ++wakes; });
  std::shared_ptr<ServerExchange> handle = std::make_shared<ServerExchange>(core);
};

TEST(Exchange, RepliesOnce) {
  Pair p;
  p.handle->reply({.status = 201, .body = "a", .content_type = "t", .headers = {}});
  p.handle->reply({.status = 500, .body = "b", .content_type = "t", .headers = {}});
  const auto part = p.core->take();
  EXPECT_TRUE(part.head && part.complete);
  EXPECT_EQ(part.status, 201);
  EXPECT_EQ(part.body, "a");
  EXPECT_EQ(p.wakes, 1);
  EXPECT_FALSE(p.core->take().head);
}

TEST(Exchange, StreamsAndWakesOncePerTake) {
  Pair p;
  p.handle->begin_stream(200, "text/event-stream", {});
  p.handle->write("a");
  p.handle->write("b");
  EXPECT_EQ(p.wakes, 1);
  auto part = p.core->take();
  EXPECT_TRUE(part.head && part.stream && !part.complete);
  EXPECT_EQ(part.body, "ab");
  p.handle->write("c");
  p.handle->finish();
  p.handle->write("late");
  EXPECT_EQ(p.wakes, 2);
  part = p.core->take();
  EXPECT_EQ(part.body, "c");
  EXPECT_TRUE(part.complete);
}

TEST(Exchange, ASlowReaderOverflows) {
  Pair p;
  p.handle->begin_stream(200, "t", {});
  p.handle->write(std::string(100, 'x'));
  EXPECT_EQ(p.handle->queued_bytes(), 100U);
  EXPECT_FALSE(p.core->take().overflow);
  p.handle->write(std::string(101, 'x'));
  EXPECT_TRUE(p.core->take().overflow);
}

TEST(Exchange, OnCloseIsCalledOnce) {
  Pair p;
  int calls = 0;
  p.handle->on_close([&] { ++calls; });
  p.core->client_gone();
  p.core->client_gone();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(p.handle->closed());
  p.handle->on_close([&] { ++calls; });  // gone already: at once
  EXPECT_EQ(calls, 2);
  p.handle->begin_stream(200, "t", {});
  p.handle->write("dropped");
  EXPECT_EQ(p.core->take().body, "");
}

TEST(Exchange, OnCloseIsForgottenWithTheAnswer) {
  Pair p;
  int calls = 0;
  p.handle->on_close([&] { ++calls; });
  p.handle->reply({});
  p.core->client_gone();
  EXPECT_EQ(calls, 0);
}

TEST(Exchange, AHandlerThatForgetsToAnswer) {
  Pair silent;
  silent.handle.reset();
  EXPECT_EQ(silent.core->take().status, 500);
  Pair broken;
  broken.handle->begin_stream(200, "t", {});
  broken.handle.reset();
  EXPECT_TRUE(broken.core->take().aborted);
}

TEST(Exchange, HeartbeatsFillSilence) {
  Pair p;
  p.handle->begin_stream(200, "t", {});
  p.handle->heartbeat(": ping\n\n", 10ms);
  p.core->take();
  p.core->tick(ExchangeCore::Clock::now());
  EXPECT_EQ(p.core->take().body, "");
  p.core->tick(ExchangeCore::Clock::now() + 1s);
  EXPECT_EQ(p.core->take().body, ": ping\n\n");
  p.handle->heartbeat("", 0ms);
  p.core->tick(ExchangeCore::Clock::now() + 1h);
  EXPECT_EQ(p.core->take().body, "");
}

TEST(Exchange, ErrorsBecomeEnvelopes) {
  const auto answer = [](const Handler& handler) {
    Pair p;
    run_handler(handler, p.handle);
    return p.core->take();
  };
  const auto bad = answer([](const auto&) { throw Error(Code::InvalidArgument, "no \"x\""); });
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(Json::parse(bad.body).value().find("error")->find("message")->as_string(), "no \"x\"");
  const auto inner = answer([](const auto&) { throw Error(Code::Internal, "pointer 0x1"); });
  EXPECT_EQ(inner.status, 500);
  EXPECT_THAT(inner.body, Not(HasSubstr("0x1")));
  const auto other = answer([](const auto&) { throw std::runtime_error("path /x"); });
  EXPECT_EQ(other.status, 500);
  EXPECT_THAT(other.body, Not(HasSubstr("/x")));
}

TEST(Exchange, ManyThreadsWriteAndLeave) {
  for (int round = 0; round < 50; ++round) {
    auto core = std::make_shared<ExchangeCore>(HttpRequest{}, 1 << 20, [] {});
    auto handle = std::make_shared<ServerExchange>(core);
    std::atomic<int> closes{0};
    std::thread writer([&] {
      handle->begin_stream(200, "t", {});
      handle->on_close([&] { ++closes; });
      for (int i = 0; i < 200; ++i) handle->write("0123456789");
    });
    std::thread leaver([&] { core->client_gone(); });
    size_t bytes = 0;
    for (int i = 0; i < 100; ++i) bytes += core->take().body.size();
    writer.join();
    leaver.join();
    bytes += core->take().body.size();
    EXPECT_EQ(bytes % 10, 0U);
    EXPECT_EQ(closes.load(), 1);
    core->detach();
  }
}

}  // namespace
}  // namespace mlxcel::serve
