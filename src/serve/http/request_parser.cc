#include "serve/http/request_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "serve/http/url.h"

namespace mlxcel::serve {
namespace {

namespace http = boost::beast::http;

std::string to_string(boost::beast::string_view text) { return {text.data(), text.size()}; }

RequestParser::Problem explain(const boost::system::error_code& error, const ParserLimits& limits) {
  if (error == http::error::header_limit) {
    return {431, fmt::format("the request's headers are larger than {} bytes", limits.head_bytes)};
  }
  if (error == http::error::body_limit || error == http::error::buffer_overflow) {
    return {413, fmt::format("the request's body is larger than {} bytes", limits.body_bytes)};
  }
  if (error == http::error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {400, "malformed HTTP: " + error.message()};
}

}  // namespace

struct RequestParser::Impl {
  ParserLimits limits;
  http::request_parser<http::string_body> parser;
  HttpRequest request;
  bool started = false, head_done = false;
  std::optional<Problem> problem;

  void read_head() {
    head_done = true;
    const auto& message = parser.get();
    request.method = to_string(message.method_string());
    for (const auto& field : message) {
      std::string name = to_string(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      request.headers.emplace_back(std::move(name), to_string(field.value()));
    }
    const auto target = message.target();
    if (request.method == "OPTIONS" && target == "*") {
      request.path = "*";
      return;
    }
    auto parsed = parse_target({target.data(), target.size()});
    if (!parsed) {
      problem = {400, "malformed HTTP: the request line names no path"};
      return;
    }
    request.path = std::move(parsed->path);
    request.query = std::move(parsed->query);
  }
};

RequestParser::RequestParser(const ParserLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->parser.header_limit(limits.head_bytes);
  impl_->parser.body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

size_t RequestParser::feed(std::string_view data) {
  Impl& im = *impl_;
  if (data.empty() || im.problem || done()) return 0;
  size_t skipped = 0;
  if (!im.started) {
    // Some clients end a body with one line break too many.
    while (skipped < data.size() && (data[skipped] == '\r' || data[skipped] == '\n')) ++skipped;
    data.remove_prefix(skipped);
    if (data.empty()) return skipped;
    im.started = true;
  }
  boost::system::error_code error;
  const size_t used = im.parser.put(boost::asio::const_buffer(data.data(), data.size()), error);
  if (error == http::error::need_more) error = {};
  if (!im.head_done && im.parser.is_header_done()) {
    im.read_head();
    im.parser.eager(true);
  }
  if (error && !im.problem) im.problem = explain(error, im.limits);
  return skipped + used;
}

bool RequestParser::started() const { return impl_->started; }
bool RequestParser::head_done() const { return impl_->head_done; }
bool RequestParser::done() const { return impl_->parser.is_done(); }
const std::optional<RequestParser::Problem>& RequestParser::problem() const {
  return impl_->problem;
}
HttpRequest& RequestParser::request() { return impl_->request; }

HttpRequest RequestParser::take() {
  impl_->request.body = std::move(impl_->parser.get().body());
  return std::move(impl_->request);
}

bool RequestParser::keep_alive() const { return impl_->parser.get().keep_alive(); }
bool RequestParser::http_1_0() const { return impl_->parser.get().version() < 11; }

bool RequestParser::expects_continue() const {
  return boost::beast::iequals(impl_->parser.get()[http::field::expect], "100-continue");
}

std::optional<uint64_t> RequestParser::content_length() const {
  if (impl_->parser.chunked()) return std::nullopt;
  const auto length = impl_->parser.content_length();
  return length ? *length : 0;
}

std::string_view reason_phrase(int status) {
  const auto text = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {text.data(), text.size()};
}

}  // namespace mlxcel::serve
