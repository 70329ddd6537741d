#include "serving.h"

#include <algorithm>

#include "base/utf8.h"
#include "serve/routes_generation.h"

namespace mlxcel::serve::testing {

using text::TokenId;

WordTokenizer::WordTokenizer(std::vector<std::string> words) {
  for (int b = 0; b < 256; ++b) pieces_.emplace_back(1, static_cast<char>(b));
  pieces_.emplace_back("<s>");
  pieces_.emplace_back("</s>");
  for (std::string& word : words) pieces_.push_back(std::move(word));
}

std::vector<TokenId> WordTokenizer::encode(std::string_view text,
                                           const text::EncodeOptions& options) const {
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids.push_back(kBos);
  while (!text.empty()) {
    const bool special = options.parse_special_tokens && text.starts_with("<s>");
    ids.push_back(special ? kBos : static_cast<unsigned char>(text[0]));
    text.remove_prefix(special ? 3 : 1);
  }
  return ids;
}

std::string WordTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!(skip_special && is_special(id))) out += bytes(id);
  }
  return utf8::repair(out);
}

std::string_view WordTokenizer::bytes(TokenId id) const {
  return id >= 0 && id < vocab_size() ? pieces_[static_cast<size_t>(id)] : std::string_view();
}

std::optional<TokenId> WordTokenizer::id_of(std::string_view token) const {
  const auto it = std::ranges::find(pieces_, token);
  if (it == pieces_.end()) return std::nullopt;
  return static_cast<TokenId>(it - pieces_.begin());
}

ScriptLm::ScriptLm(int64_t vocab_size, std::vector<int32_t> script, int64_t context)
    : script_(std::move(script)) {
  spec_.vocab_size = vocab_size;
  spec_.hidden_size = 1;
  spec_.max_positions = context;
  spec_.caches = {nn::CacheSpec::full(1, 1)};
}

Tensor ScriptLm::forward(const nn::Batch& batch) const {
  if (before_forward) before_forward();
  const auto rows = batch.logit_rows.host<int32_t>();
  const auto tokens = batch.token_ids.host<int32_t>();
  const auto vocab = static_cast<size_t>(spec_.vocab_size);
  Tensor out = Tensor::zeros({static_cast<int64_t>(rows.size()), spec_.vocab_size}, DType::F32);
  const auto all = out.host_mut<float>();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t last = tokens[static_cast<size_t>(rows[i])];
    const auto at = std::ranges::find(script_, last);
    const size_t next = at == script_.end() ? 0 : static_cast<size_t>(at - script_.begin()) + 1;
    const int32_t token = next < script_.size() ? script_[next] : WordTokenizer::kEos;
    all[i * vocab + static_cast<size_t>(token)] = 10.0F;
  }
  return out;
}

std::vector<Json> Reply::events() const {
  std::vector<Json> out;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    const std::string_view line = std::string_view(body).substr(begin, end - begin);
    if (line.starts_with("data: {")) out.push_back(Json::parse(line.substr(6)).value());
    begin = end + 1;
  }
  return out;
}

std::vector<std::string> Reply::event_names() const {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin < body.size()) {
    const size_t end = std::min(body.find('\n', begin), body.size());
    const std::string_view line = std::string_view(body).substr(begin, end - begin);
    if (line.starts_with("event: ")) out.emplace_back(line.substr(7));
    begin = end + 1;
  }
  return out;
}

void FakeExchange::reply(HttpResponse response) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_ || done_) return;
  reply_.status = response.status;
  reply_.body = std::move(response.body);
  reply_.content_type = std::move(response.content_type);
  reply_.headers = std::move(response.headers);
  done_ = true;
  changed_.notify_all();
}

void FakeExchange::begin_stream(int status, std::string content_type,
                                std::vector<std::pair<std::string, std::string>> headers) noexcept {
  const std::lock_guard lock(mutex_);
  reply_.status = status;
  reply_.content_type = std::move(content_type);
  reply_.headers = std::move(headers);
  reply_.streamed = true;
  changed_.notify_all();
}

void FakeExchange::write(std::string bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_ || done_) return;
  reply_.body += bytes;
  changed_.notify_all();
}

void FakeExchange::finish() noexcept {
  const std::lock_guard lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void FakeExchange::heartbeat(std::string, std::chrono::milliseconds interval) noexcept {
  const std::lock_guard lock(mutex_);
  ping = interval;
}

bool FakeExchange::closed() const noexcept {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void FakeExchange::on_close(std::function<void()> callback) noexcept {
  const std::lock_guard lock(mutex_);
  on_close_ = std::move(callback);
}

void FakeExchange::close() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    closed_ = done_ = true;
    callback = std::move(on_close_);
    changed_.notify_all();
  }
  if (callback) callback();
}

Reply FakeExchange::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_; });
  return reply_;
}

bool FakeExchange::wait_for(std::string_view text) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(60),
                           [&] { return done_ || reply_.body.find(text) != std::string::npos; });
}

Reply FakeExchange::so_far() {
  const std::lock_guard lock(mutex_);
  return reply_;
}

bool FakeExchange::started() {
  const std::lock_guard lock(mutex_);
  return reply_.streamed;
}

Serving::Serving(Options options) {
  const auto tokenizer = std::make_shared<WordTokenizer>(options.script);
  std::vector<int32_t> script;
  for (const std::string& word : options.script) script.push_back(*tokenizer->id_of(word));
  model = std::make_shared<ScriptLm>(tokenizer->vocab_size(), script, options.context_tokens);
  engine::EngineOptions engine_options;
  engine_options.max_batch = options.num_slots;
  engine_options.max_queue_depth = options.queue_depth;
  engine_options.kv_budget_bytes = int64_t{8} << 20;
  engine_options.prefix_cache_min_tokens = 1;
  engine_options.block_tokens = 4;
  state.model.id = "scripted";
  state.model.tokenizer = tokenizer;
  state.model.engine = engine::Engine::start(model, tokenizer, engine_options);
  state.model.chat.template_source = options.chat_template;
  state.model.stop_ids = {WordTokenizer::kEos};
  state.model.vocab_size = tokenizer->vocab_size();
  state.num_slots = options.num_slots;
  state.generation = options.generation;
  state.defaults = [this] { return std::make_shared<const RequestDefaults>(defaults); };
  add_generation_routes(router, state);
}

std::shared_ptr<FakeExchange> Serving::start(
    std::string_view method, std::string path, std::string body,
    std::vector<std::pair<std::string, std::string>> headers) {
  HttpRequest request;
  request.method = method;
  const size_t question = path.find('?');
  if (question != std::string::npos) {
    std::string_view query = std::string_view(path).substr(question + 1);
    while (!query.empty()) {
      const size_t end = std::min(query.find('&'), query.size());
      const std::string_view pair = query.substr(0, end);
      const size_t equal = std::min(pair.find('='), pair.size());
      request.query.emplace_back(pair.substr(0, equal),
                                 pair.substr(std::min(equal + 1, pair.size())));
      query.remove_prefix(std::min(end + 1, query.size()));
    }
    path.resize(question);
  }
  request.path = path;
  request.body = std::move(body);
  request.headers = std::move(headers);
  const Router::Match match = router.find(method, path);
  request.path_values = match.path_values;
  auto exchange = std::make_shared<FakeExchange>(std::move(request));
  if (match.handler == nullptr) {
    exchange->reply({.status = 404, .body = "{}", .content_type = {}, .headers = {}});
  } else {
    (*match.handler)(exchange);
  }
  return exchange;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 1; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != ' ') continue;
    out.emplace_back(text.substr(begin, i - begin));
    begin = i;
  }
  return out;
}

}  // namespace mlxcel::serve::testing
