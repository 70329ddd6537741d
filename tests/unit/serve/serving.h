// Generation routes over a scripted model, without HTTP.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "nn/causal_lm.h"
#include "serve/http/exchange.h"
#include "serve/served_model.h"

namespace mlxcel::serve::testing {

/// Bytes, "<s>" (256), "</s>" (257), then `words`. Text is encoded to bytes and the two specials.
class WordTokenizer final : public text::Tokenizer {
 public:
  explicit WordTokenizer(std::vector<std::string> words);
  std::vector<text::TokenId> encode(std::string_view text,
                                    const text::EncodeOptions& options) const override;
  std::string decode(std::span<const text::TokenId> ids, bool skip_special) const override;
  std::string_view bytes(text::TokenId id) const override;
  std::string_view token(text::TokenId id) const override { return bytes(id); }
  std::optional<text::TokenId> id_of(std::string_view token) const override;
  bool is_special(text::TokenId id) const override { return id == kBos || id == kEos; }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::optional<text::TokenId> bos_id() const override { return kBos; }
  std::optional<text::TokenId> eos_id() const override { return kEos; }
  bool strips_leading_space() const override { return false; }
  static constexpr text::TokenId kBos = 256, kEos = 257;

 private:
  std::vector<std::string> pieces_;
};

/// Emits the words of the script in order after whatever prompt, then "</s>". Words are distinct
/// and do not end a prompt.
class ScriptLm final : public nn::CausalLm {
 public:
  ScriptLm(int64_t vocab_size, std::vector<int32_t> script, int64_t context);
  const nn::ModelSpec& spec() const override { return spec_; }
  Tensor forward(const nn::Batch& batch) const override;
  int64_t weight_bytes() const override { return 0; }
  /// Called before each forward; may wait.
  std::function<void()> before_forward;

 private:
  nn::ModelSpec spec_;
  std::vector<int32_t> script_;
};

/// What an exchange got.
struct Reply {
  int status = 0;
  std::string body;  // of a stream: all bytes
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  bool streamed = false;

  Json json() const { return Json::parse(body).value(); }
  /// Payloads of "data:" lines that are JSON, in order.
  std::vector<Json> events() const;
  /// Names of "event:" lines.
  std::vector<std::string> event_names() const;
  bool ends_with_done() const { return body.ends_with("data: [DONE]\n\n"); }
};

class FakeExchange final : public Exchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}
  const HttpRequest& request() const noexcept override { return request_; }
  void reply(HttpResponse response) noexcept override;
  void begin_stream(int status, std::string content_type,
                    std::vector<std::pair<std::string, std::string>> headers) noexcept override;
  void write(std::string bytes) noexcept override;
  void finish() noexcept override;
  void heartbeat(std::string bytes, std::chrono::milliseconds interval) noexcept override;
  bool closed() const noexcept override;
  void on_close(std::function<void()> callback) noexcept override;
  size_t queued_bytes() const noexcept override { return 0; }

  /// The client goes away.
  void close();
  /// Waits at most a minute for the end of the answer.
  Reply wait();
  /// Waits until the answer contains `text`.
  bool wait_for(std::string_view text);
  bool started();
  Reply so_far();
  std::chrono::milliseconds ping{0};

 private:
  HttpRequest request_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Reply reply_;
  bool done_ = false, closed_ = false;
  std::function<void()> on_close_;
};

class Serving {
 public:
  struct Options {
    std::vector<std::string> script;
    std::string chat_template =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if tools %}{tools}{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}";
    int32_t context_tokens = 512;
    int32_t num_slots = 2;
    int32_t queue_depth = 8;
    GenerationOptions generation;
  };
  explicit Serving(Options options);

  std::shared_ptr<FakeExchange> start(
      std::string_view method, std::string path, std::string body,
      std::vector<std::pair<std::string, std::string>> headers = {});
  Reply send(std::string_view method, std::string path, std::string body = {},
             std::vector<std::pair<std::string, std::string>> headers = {}) {
    return start(method, std::move(path), std::move(body), std::move(headers))->wait();
  }
  Reply post(std::string path, std::string body) {
    return send("POST", std::move(path), std::move(body));
  }

  std::shared_ptr<ScriptLm> model;
  ServerState state;
  RequestDefaults defaults;
  Router router;
};

/// A script of words, one token each.
std::vector<std::string> words(std::string_view text);

}  // namespace mlxcel::serve::testing
