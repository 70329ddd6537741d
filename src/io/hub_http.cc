#include "io/hub_http.h"

#include <curl/curl.h>
#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "io/hub_names.h"

namespace mlxcel::io {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxErrorBody = size_t{64} << 10;
constexpr uint64_t kMaxExtraCa = uint64_t{1} << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

struct UrlParts {
  std::string scheme, host, port;
  bool operator==(const UrlParts&) const = default;
};

class Url {
 public:
  explicit Url(const std::string& text) : handle_(curl_url()) { set(text); }
  ~Url() { curl_url_cleanup(handle_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;
  /// Replaces the URL; a relative reference is taken relative to the current one.
  void set(const std::string& text) {
    const CURLUcode rc = curl_url_set(handle_, CURLUPART_URL, text.c_str(), 0);
    if (rc != CURLUE_OK) {
      throw Error(Code::InvalidArgument,
                  fmt::format("'{}' is no URL: {}", url_for_messages(text), curl_url_strerror(rc)));
    }
  }
  std::string text() const { return part(CURLUPART_URL); }
  UrlParts parts() const {
    return {lower(part(CURLUPART_SCHEME)), lower(part(CURLUPART_HOST)),
            part(CURLUPART_PORT, CURLU_DEFAULT_PORT)};
  }

 private:
  std::string part(CURLUPart which, unsigned flags = 0) const {
    char* value = nullptr;
    if (curl_url_get(handle_, which, &value, flags) != CURLUE_OK || value == nullptr) return {};
    std::string out = value;
    curl_free(value);
    return out;
  }
  CURLU* handle_;
};

/// The system's certificate bundle followed by MLXCEL_EXTRA_CA_CERTS; empty when that is not set.
std::string extra_ca_bundle() {
  const auto path = env::get("MLXCEL_EXTRA_CA_CERTS");
  if (!path) return {};
  const std::string pem =
      with_context("MLXCEL_EXTRA_CA_CERTS", [&] { return read_file(*path, kMaxExtraCa); });
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  int count = 0;
  while (X509* cert = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
    X509_free(cert);
    ++count;
  }
  BIO_free(bio);
  if (count == 0) {
    throw Error(Code::InvalidArgument,
                fmt::format("MLXCEL_EXTRA_CA_CERTS: {} holds no PEM certificate", *path));
  }
  // A bundle given in memory replaces the default file, so the default file is put before it.
  std::string bundle;
  const curl_version_info_data* info = curl_version_info(CURLVERSION_NOW);
  if (info->age >= CURLVERSION_TENTH && info->cainfo != nullptr && file_exists(info->cainfo)) {
    bundle = read_file(info->cainfo) + "\n";
  }
  return bundle + pem;
}

/// State of one hop, filled by libcurl's callbacks.
struct Transfer {
  CURL* curl = nullptr;
  HttpResponse response;
  HttpSink* sink = nullptr;
  const std::atomic<bool>* cancel = nullptr;
  bool begun = false;
  std::exception_ptr failure;
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) t.response.headers.clear();  // an interim response came before
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos && t.response.headers.size() < 200) {
    t.response.headers.emplace_back(lower(trim(line.substr(0, colon))),
                                    std::string(trim(line.substr(colon + 1))));
  }
  return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  long status = 0;
  curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &status);
  t.response.status = static_cast<int>(status);
  if (status < 200 || status >= 300) {
    const size_t room = kMaxErrorBody - std::min(kMaxErrorBody, t.response.body.size());
    t.response.body.append(data, std::min(room, bytes));
    return bytes;
  }
  try {
    if (!std::exchange(t.begun, true)) t.sink->begin(t.response);
    t.sink->write({data, bytes});
    return bytes;
  } catch (...) {
    t.failure = std::current_exception();
    return 0;
  }
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& t = *static_cast<Transfer*>(user);
  return t.cancel != nullptr && t.cancel->load(std::memory_order_relaxed) ? 1 : 0;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

class TextSink final : public HttpSink {
 public:
  TextSink(size_t max_bytes, std::string url) : max_bytes_(max_bytes), url_(std::move(url)) {}
  void begin(const HttpResponse&) override {}
  void write(std::string_view data) override {
    if (text.size() + data.size() > max_bytes_) {
      throw Error(Code::ResourceExhausted, fmt::format("{} answers with more than {} bytes",
                                                       url_for_messages(url_), max_bytes_));
    }
    text += data;
  }
  std::string text;

 private:
  size_t max_bytes_;
  std::string url_;
};

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

struct HttpClient::Impl {
  HttpOptions options;
  UrlParts home;
  CURL* curl = nullptr;
  std::string ca_bundle;

  bool may_send_token(const UrlParts& to) const {
    return !options.token.empty() && to == home &&
           (to.scheme == "https" || options.allow_insecure_token);
  }

  /// One request without following redirects.
  HttpResponse hop(const Url& url, uint64_t offset, HttpSink& sink) {
    Transfer t;
    t.curl = curl;
    t.sink = &sink;
    t.cancel = options.cancel;
    t.response.url = url.text();
    char error_text[CURL_ERROR_SIZE] = "";
    curl_easy_reset(curl);
    curl_slist* headers = nullptr;
    if (may_send_token(url.parts())) {
      headers = curl_slist_append(headers, ("Authorization: Bearer " + options.token).c_str());
    }
    const std::string range = fmt::format("{}-", offset);
    curl_easy_setopt(curl, CURLOPT_URL, t.response.url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "mlxcel");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_seconds));
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &t);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &t);
    if (offset > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    curl_blob blob{ca_bundle.data(), ca_bundle.size(), CURL_BLOB_NOCOPY};
    if (!ca_bundle.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
    const CURLcode rc = curl_easy_perform(curl);
    curl_slist_free_all(headers);
    if (t.failure) std::rethrow_exception(t.failure);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    t.response.status = static_cast<int>(status);
    if (rc != CURLE_OK) {
      t.response.transport_error = error_text[0] != '\0' ? error_text : curl_easy_strerror(rc);
    } else if (t.response.ok() && !t.begun) {
      sink.begin(t.response);  // an empty body
    }
    return std::move(t.response);
  }
};

HttpClient::HttpClient(HttpOptions options) : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->options = std::move(options);
  impl_->home = Url(impl_->options.endpoint).parts();
  if (impl_->home.scheme != "https" && impl_->home.scheme != "http") {
    throw Error(Code::InvalidArgument,
                fmt::format("HF_ENDPOINT '{}' must begin with https:// or http://",
                            url_for_messages(impl_->options.endpoint)));
  }
  impl_->ca_bundle = extra_ca_bundle();
  impl_->curl = curl_easy_init();
  if (impl_->curl == nullptr) throw Error(Code::Internal, "libcurl cannot be initialized");
}

HttpClient::~HttpClient() {
  if (impl_->curl != nullptr) curl_easy_cleanup(impl_->curl);
}

const HttpOptions& HttpClient::options() const { return impl_->options; }

HttpResponse HttpClient::get(const std::string& url, uint64_t offset, HttpSink& sink) {
  Url current(url);
  std::string linked_etag;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    HttpResponse response = impl_->hop(current, offset, sink);
    if (const auto etag = response.header("x-linked-etag"); !etag.empty()) linked_etag = etag;
    std::erase(linked_etag, '"');
    response.linked_etag = linked_etag;
    const std::string location(response.header("location"));
    if (!response.transport_error.empty() || !is_redirect(response.status) || location.empty()) {
      return response;
    }
    const std::string from = current.parts().scheme;
    current.set(location);
    const std::string to = current.parts().scheme;
    if ((to != "https" && to != "http") || (from == "https" && to == "http")) {
      throw Error(Code::InvalidArgument, fmt::format("{} redirects from {} to {}, which is refused",
                                                     url_for_messages(url), from, to));
    }
  }
  throw Error(Code::InvalidArgument,
              fmt::format("{} redirects more than {} times", url_for_messages(url), kMaxRedirects));
}

HttpResponse HttpClient::get_text(const std::string& url, size_t max_bytes) {
  TextSink sink(max_bytes, url);
  HttpResponse response = get(url, 0, sink);
  if (response.status >= 200 && response.status < 300) response.body = std::move(sink.text);
  return response;
}

}  // namespace mlxcel::io
