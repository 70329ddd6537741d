// Request lines, heads and bodies in every cut, and what is refused.
#include "serve/http/request_parser.h"

#include <gmock/gmock.h>

#include "serve/http/response_head.h"
#include "serve/http/url.h"

namespace mlxcel::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr ParserLimits kLimits{.head_bytes = 256, .body_bytes = 64};

/// Feeds `data` in pieces of `piece` bytes, as a connection does.
void feed(RequestParser& parser, std::string_view data, size_t piece) {
  std::string unread;
  size_t given = 0;
  while (!parser.done() && !parser.problem()) {
    const size_t used = parser.feed(unread);
    unread.erase(0, used);
    if (used > 0) continue;
    if (given == data.size()) return;
    const size_t n = std::min(piece, data.size() - given);
    unread.append(data.substr(given, n));
    given += n;
  }
}

TEST(RequestParser, ReadsARequestInEveryCut) {
  const std::string data =
      "\r\nPOST /v1/x%20y?a=1&b=%26+c&d HTTP/1.1\r\nHost: h\r\nX-Two: a b \r\n"
      "Content-Length: 5\r\n\r\nhello";
  for (size_t piece = 1; piece <= data.size(); ++piece) {
    RequestParser parser(kLimits);
    feed(parser, data, piece);
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_TRUE(parser.keep_alive());
    const HttpRequest request = parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x y");
    EXPECT_THAT(request.query, ElementsAre(Pair("a", "1"), Pair("b", "& c"), Pair("d", "")));
    EXPECT_EQ(*request.header("x-two"), "a b");
    EXPECT_EQ(request.body, "hello");
  }
}

TEST(RequestParser, ReadsChunks) {
  const std::string data =
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
  for (size_t piece = 1; piece <= data.size(); ++piece) {
    RequestParser parser(kLimits);
    feed(parser, data, piece);
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_FALSE(parser.content_length());
    EXPECT_EQ(parser.take().body, "abcde");
  }
}

TEST(RequestParser, LeavesTheNextRequest) {
  const std::string data = "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
  RequestParser parser(kLimits);
  size_t used = parser.feed(data);
  used += parser.feed(std::string_view(data).substr(used));
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(data.substr(used), "GET /b HTTP/1.1\r\n\r\n");
}

TEST(RequestParser, RefusesWithAStatus) {
  const auto status = [](std::string_view data) {
    RequestParser parser(kLimits);
    feed(parser, data, data.size());
    return parser.problem() ? parser.problem()->status : 0;
  };
  EXPECT_EQ(status("GET /x HTTP/1.1\r\nA: " + std::string(300, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status("POST /x HTTP/1.1\r\nContent-Length: 65\r\n\r\n"), 413);
  EXPECT_EQ(status("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n" +
                   std::string(65, 'a') + "\r\n"),
            413);
  EXPECT_EQ(status("rubbish\r\n\r\n"), 400);
  EXPECT_EQ(status("GET x HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /%0 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("POST /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na"), 400);
  EXPECT_EQ(status("GET /x HTTP/1.1\r\n\r\n"), 0);
}

TEST(Url, DecodesAndSplits) {
  EXPECT_EQ(parse_target("http://host:1/a?b=c")->path, "/a");
  EXPECT_EQ(parse_target("https://host")->path, "/");
  EXPECT_EQ(parse_target("/a#fragment")->path, "/a");
  EXPECT_THAT(parse_target("/?x=%2Fy&&=z")->query, ElementsAre(Pair("x", "/y"), Pair("", "z")));
  EXPECT_EQ(*percent_decode("a+b", false), "a+b");
  EXPECT_EQ(*percent_decode("%41%7a", false), "Az");
  for (const char* bad : {"", "a", "*", "/%", "/%4", "/%4x", "/%00", "/?a=%ff%g0"}) {
    EXPECT_FALSE(parse_target(bad)) << bad;
  }
}

TEST(ResponseHead, NeverBreaksALine) {
  const std::vector<std::pair<std::string, std::string>> headers = {{"X-A", "1\r\nX-Evil: 2"}};
  ResponseHead head;
  head.status = 404;
  head.content_type = "text/plain";
  head.headers = &headers;
  head.content_length = 3;
  const std::string text = write_head(head);
  EXPECT_THAT(text, HasSubstr("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(text, HasSubstr("\r\nX-A: 1  X-Evil: 2\r\n"));
  EXPECT_THAT(text, HasSubstr("\r\nContent-Length: 3\r\n"));
  head.status = 204;
  EXPECT_EQ(write_head(head).find("Content-"), std::string::npos);
  EXPECT_EQ(chunk_head(31), "1f\r\n");
}

}  // namespace
}  // namespace mlxcel::serve
