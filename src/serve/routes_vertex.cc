// Vertex AI's prediction route: several requests in one body, answered in their order.
#include <fmt/core.h>

#include <atomic>
#include <mutex>

#include "serve/route_groups.h"
#include "serve/wire/api_error.h"
#include "serve/wire/fields.h"

namespace mlxcel::serve {
namespace {

constexpr size_t kMaxInstances = 128;
constexpr size_t kMaxParallel = 8;

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"chatCompletions", "/v1/chat/completions"},
    {"completions", "/v1/completions"},
    {"completion", "/completion"},
    {"responses", "/v1/responses"},
    {"messages", "/v1/messages"},
    {"countTokens", "/v1/messages/count_tokens"},
    {"infill", "/infill"},
    {"embeddings", "/v1/embeddings"},
    {"rerank", "/rerank"},
    {"tokenize", "/tokenize"},
    {"detokenize", "/detokenize"},
    {"applyTemplate", "/apply-template"}};

std::string path_of(const std::string& format) {
  if (format.starts_with('/')) return format;
  for (const auto& [name, path] : kFormats) {
    if (name == format) return std::string(path);
  }
  return {};
}

/// All instances of one body, of which a few run at a time.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(const Router& router, std::shared_ptr<Exchange> parent, std::string own_path,
        Json instances)
      : router_(router),
        parent_(std::move(parent)),
        own_path_(std::move(own_path)),
        instances_(std::move(instances)),
        predictions_(instances_.size()) {}

  void run() {
    parent_->on_close([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->close();
    });
    for (size_t i = 0; i < std::min(kMaxParallel, predictions_.size()); ++i) start_next();
  }

 private:
  /// One instance's exchange: its reply becomes a prediction.
  class Part final : public Exchange {
   public:
    Part(std::shared_ptr<Batch> batch, size_t index, HttpRequest request)
        : batch_(std::move(batch)), index_(index), request_(std::move(request)) {}
    ~Part() override {
      if (!answered_) batch_->finish(index_, error_json({500, "server_error", "no answer", {}}));
    }
    const HttpRequest& request() const noexcept override { return request_; }
    void reply(HttpResponse response) noexcept override {
      if (answered_.exchange(true)) return;
      Result<Json> body = Json::parse(response.body);
      batch_->finish(index_, body.ok() ? std::move(body).value() : Json(response.body));
    }
    void begin_stream(int, std::string,
                      std::vector<std::pair<std::string, std::string>>) noexcept override {
      if (answered_.exchange(true)) return;
      batch_->finish(index_,
                     error_json(invalid_request("this request cannot be answered in one piece")));
    }
    void write(std::string) noexcept override {}
    void finish() noexcept override {}
    void heartbeat(std::string, std::chrono::milliseconds) noexcept override {}
    bool closed() const noexcept override { return batch_->parent_->closed(); }
    void on_close(std::function<void()> callback) noexcept override {
      batch_->add_callback(std::move(callback));
    }
    size_t queued_bytes() const noexcept override { return 0; }

   private:
    std::shared_ptr<Batch> batch_;  // alive until every part is answered
    size_t index_;
    HttpRequest request_;
    std::atomic<bool> answered_{false};
  };

  void start_next() {
    size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      if (next_ == predictions_.size()) return;
      index = next_++;
    }
    HttpRequest request = parent_->request();
    request.method = "POST";
    request.query.clear();
    Json body = instances_.as_array()[index];
    const Json* format = body.find("@requestFormat");
    if (!body.is_object() || format == nullptr || !format->is_string()) {
      return finish(index,
                    error_json(invalid_request("'@requestFormat': is missing from the instance")));
    }
    request.path = path_of(format->as_string());
    const Router::Match match = router_.find("POST", request.path);
    if (match.handler == nullptr || request.path == own_path_) {
      return finish(index, error_json(invalid_request("'@requestFormat': unknown format")));
    }
    request.path_values = match.path_values;
    body.set("stream", false);
    request.body = body.dump();
    const auto part = std::make_shared<Part>(shared_from_this(), index, std::move(request));
    try {
      (*match.handler)(part);
    } catch (const Error& e) {
      part->reply(error_response(to_api_error(e)));
    }
  }

  void finish(size_t index, Json prediction) {
    bool all = false;
    {
      const std::lock_guard lock(mutex_);
      predictions_[index] = std::move(prediction);
      all = ++num_finished_ == predictions_.size();
    }
    if (!all) return start_next();
    parent_->reply(json_response(Json::object({{"predictions", Json::array(predictions_)}})));
  }

  void add_callback(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_) return callbacks_.push_back(std::move(callback));
    }
    callback();
  }

  void close() {
    std::vector<std::function<void()>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      callbacks.swap(callbacks_);
    }
    for (const auto& callback : callbacks) callback();
  }

  const Router& router_;  // the server's
  std::shared_ptr<Exchange> parent_;
  const std::string own_path_;
  const Json instances_;
  std::mutex mutex_;  // guards the rest
  Json::Array predictions_;
  size_t next_ = 0, num_finished_ = 0;
  bool closed_ = false;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace

void add_vertex_route(Router& router, const std::string& path) {
  router.add(
      "POST", path, guarded(wire::Envelope::OpenAi, [&router, path](const auto& exchange) {
        const Json body = wire::parse_body(exchange->request().body).value();
        wire::Fields f(body);
        const Json* instances = f.array("instances");
        if (!f.ok()) throw f.error();
        if (instances == nullptr || instances->size() > kMaxInstances) {
          throw wire::bad_field("instances",
                                fmt::format("expected a list of at most {}", kMaxInstances));
        }
        if (instances->size() == 0) {
          return exchange->reply(json_response(Json::object({{"predictions", Json::array()}})));
        }
        std::make_shared<Batch>(router, exchange, path, *instances)->run();
      }));
}

}  // namespace mlxcel::serve
