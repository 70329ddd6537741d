// Which handler a request gets, and what is answered before one.
#include "serve/http/dispatcher.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "testing/paths.h"

namespace mlxcel::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

HttpRequest request(std::string method, std::string path,
                    std::vector<std::pair<std::string, std::string>> headers = {}) {
  HttpRequest r;
  r.method = std::move(method);
  r.path = std::move(path);
  r.headers = std::move(headers);
  return r;
}

Handler named(std::string& last, const char* name) {
  return [&last, name](const std::shared_ptr<Exchange>&) { last = name; };
}

class DispatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    router_.add("GET", "/health", named(last_, "health"), Router::Auth::Public);
    router_.add("POST", "/v1/responses/{id}", named(last_, "id"));
    router_.add("POST", "/v1/responses/input_tokens", named(last_, "tokens"));
    router_.add("DELETE", "/v1/responses/{id}", named(last_, "delete"));
    router_.add("GET", "/a/{x}/b/{y}", named(last_, "two"));
  }
  int status(const Dispatcher& dispatcher, HttpRequest r) {
    const Dispatcher::Decision decision = dispatcher.decide(r);
    if (!decision.response) {
      (*decision.handler)(nullptr);
      return 200;
    }
    return decision.response->status;
  }
  Router router_;
  std::string last_;
};

TEST_F(DispatcherTest, LiteralsWinOverNames) {
  Dispatcher d({}, {}, "");
  d.set_router(router_);
  EXPECT_EQ(status(d, request("POST", "/v1/responses/input_tokens")), 200);
  EXPECT_EQ(last_, "tokens");
  EXPECT_EQ(status(d, request("POST", "/v1/responses/resp_1")), 200);
  EXPECT_EQ(last_, "id");
  EXPECT_EQ(status(d, request("POST", "/v1/responses/")), 404);
  HttpRequest two = request("GET", "/a/1/b/2");
  d.decide(two);
  EXPECT_THAT(two.path_values, ElementsAre(Pair("x", "1"), Pair("y", "2")));
}

TEST_F(DispatcherTest, MethodsAndLoading) {
  Dispatcher d({}, {}, "");
  EXPECT_EQ(status(d, request("GET", "/health")), 503);
  EXPECT_EQ(status(d, request("OPTIONS", "/health")), 200 /* a response */);
  d.set_router(router_);
  EXPECT_EQ(status(d, request("HEAD", "/health")), 200);
  HttpRequest wrong = request("PUT", "/v1/responses/x");
  const auto decision = d.decide(wrong);
  EXPECT_EQ(decision.response->status, 405);
  EXPECT_THAT(decision.response->headers, ElementsAre(Pair("Allow", "DELETE, POST")));
}

TEST_F(DispatcherTest, KeysAndPrefix) {
  ApiKeys keys;
  keys.add("one");
  keys.add("two");
  Dispatcher plain(keys, {}, "");
  plain.set_router(router_);
  EXPECT_EQ(status(plain, request("GET", "/health")), 200);
  EXPECT_EQ(status(plain, request("POST", "/v1/responses/x")), 401);
  EXPECT_EQ(status(plain, request("GET", "/unknown")), 401);
  HttpRequest good = request("POST", "/v1/responses/x", {{"authorization", "Bearer two"}});
  EXPECT_FALSE(plain.decide(good).response);
  EXPECT_EQ(good.key_id, 1);
  HttpRequest other = request("POST", "/v1/responses/x", {{"x-api-key", " one "}});
  EXPECT_FALSE(plain.decide(other).response);
  EXPECT_EQ(other.key_id, 0);

  Dispatcher below(keys, {}, "/p");
  below.set_router(router_);
  EXPECT_EQ(status(below, request("GET", "/p/health")), 401);
  EXPECT_EQ(status(below, request("GET", "/p/health", {{"x-api-key", "one"}})), 200);
  EXPECT_EQ(status(below, request("GET", "/health", {{"x-api-key", "one"}})), 404);
  EXPECT_EQ(status(below, request("GET", "/phealth", {{"x-api-key", "one"}})), 404);
}

TEST(ApiKeys, ReadsFiles) {
  const testing::TempDir dir;
  std::ofstream(dir.file("keys")) << "# comment\n\n  alpha \r\nbeta";
  std::ofstream(dir.file("none")) << "# only\n";
  ApiKeys keys;
  keys.add_file(dir.file("keys"));
  EXPECT_EQ(keys.size(), 2U);
  EXPECT_EQ(keys.find(request("GET", "/", {{"x-api-key", "alpha"}})), 0);
  EXPECT_EQ(keys.find(request("GET", "/", {{"authorization", "bEaReR beta"}})), 1);
  EXPECT_EQ(keys.find(request("GET", "/", {{"authorization", "Basic beta"}})), -1);
  EXPECT_EQ(keys.find(request("GET", "/", {{"x-api-key", ""}})), -1);
  EXPECT_EQ(keys.find(request("GET", "/")), -1);
  EXPECT_THROW(keys.add_file(dir.file("none")), Error);
  EXPECT_THROW(keys.add_file(dir.file("missing")), Error);
}

TEST(Cors, Policies) {
  const auto headers = [](const CorsPolicy& policy, const char* origin) {
    const Dispatcher d({}, policy, "");
    HttpRequest r = request("GET", "/");
    if (origin != nullptr) r.headers.emplace_back("origin", origin);
    std::string allowed;
    for (const auto& [name, value] : d.cors_headers(r)) {
      if (name == "Access-Control-Allow-Origin") allowed = value;
    }
    return allowed;
  };
  CorsPolicy all;
  EXPECT_EQ(headers(all, "https://a"), "https://a");
  EXPECT_EQ(headers(all, nullptr), "");
  all.credentials = false;
  EXPECT_EQ(headers(all, "https://a"), "*");
  CorsPolicy local;
  local.origins = "localhost";
  for (const char* yes : {"http://localhost", "http://localhost:1", "https://127.0.0.1:2",
                          "http://[::1]:3", "http://[::1]"}) {
    EXPECT_EQ(headers(local, yes), yes);
  }
  for (const char* no : {"http://localhost.x", "http://xlocalhost", "null", "http://127.0.0.11"}) {
    EXPECT_EQ(headers(local, no), "");
  }
  CorsPolicy list;
  list.allowed_origins = {"https://a", "https://b"};
  EXPECT_EQ(headers(list, "https://b"), "https://b");
  EXPECT_EQ(headers(list, "https://c"), "");
}

}  // namespace
}  // namespace mlxcel::serve
