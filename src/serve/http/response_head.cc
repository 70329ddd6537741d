#include "serve/http/response_head.h"

#include <fmt/core.h>

#include <array>
#include <ctime>

#include "serve/http/request_parser.h"

namespace mlxcel::serve {
namespace {

/// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7), in English whatever the locale.
std::string http_date() {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(t.tm_wday)],
                     t.tm_mday, kMonths[static_cast<size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour,
                     t.tm_min, t.tm_sec);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out += c == '\r' || c == '\n' ? ' ' : c;
  out += "\r\n";
}

}  // namespace

bool bodyless(int status) { return status < 200 || status == 204 || status == 304; }

std::string chunk_head(size_t bytes) { return fmt::format("{:x}\r\n", bytes); }

std::string write_head(const ResponseHead& head) {
  std::string out;
  out.reserve(512);
  out += fmt::format("HTTP/1.{} {} {}\r\n", head.http_1_0 ? 0 : 1, head.status,
                     reason_phrase(head.status));
  append_field(out, "Server", "mlxcel");
  append_field(out, "Date", http_date());
  if (!head.content_type.empty() && !bodyless(head.status)) {
    append_field(out, "Content-Type", head.content_type);
  }
  if (head.content_length && !bodyless(head.status)) {
    append_field(out, "Content-Length", std::to_string(*head.content_length));
  }
  if (head.chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (head.close) {
    append_field(out, "Connection", "close");
  } else if (head.http_1_0) {
    append_field(out, "Connection", "keep-alive");
  }
  for (const auto* list : {head.cors, head.headers}) {
    if (list == nullptr) continue;
    for (const auto& [name, value] : *list) append_field(out, name, value);
  }
  out += "\r\n";
  return out;
}

}  // namespace mlxcel::serve
