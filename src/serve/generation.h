// What every generation route shares: requests go to the engine, its events become deltas of text,
// and a writer of the route's protocol turns those into an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/answer.h"
#include "serve/event_pump.h"
#include "serve/served_model.h"
#include "serve/stream_store.h"

namespace mlxcel::serve {

struct TokenProbability {
  text::TokenId id = 0;
  float logprob = 0;
  std::vector<std::pair<text::TokenId, float>> top;  // log-probabilities, descending
};

/// Text that became certain, with the tokens it comes from.
struct TextDelta {
  std::string text;
  std::vector<text::TokenId> ids;
  std::vector<TokenProbability> probabilities;  // only when asked for
};

enum class StopType : uint8_t { None, Eos, Limit, Word };

/// One of the answers of a request; what is known of it so far.
struct Choice {
  uint32_t index = 0;
  engine::Request request;  // without the prompt's ids, which are below
  std::vector<text::TokenId> prompt;
  engine::RequestId id = 0;
  int32_t slot = -1;
  int32_t num_cached = 0, num_processed = 0, num_generated = 0;
  double queue_ms = 0, prefill_ms = 0, decode_ms = 0;
  bool has_new_line = false, truncated = false;
  StopType stop = StopType::None;
  std::string stopping_word;
  TextDelta whole;  // all deltas so far
};

/// Turns what happens into one protocol's bytes. Calls come one at a time.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual wire::Envelope envelope() const { return wire::Envelope::OpenAi; }
  /// The requests are accepted; when streaming, the headers are out.
  virtual void begin(const std::vector<Choice>&) {}
  /// The prompt is being computed.
  virtual void progress(const Choice&) {}
  virtual void delta(const Choice& choice, const TextDelta& delta) = 0;
  virtual void choice_done(const Choice& choice) = 0;
  /// Asked after each delta: text that must come next instead of what the model would say.
  virtual std::string take_forced(const Choice&) { return {}; }
  /// Ends the thinking of every choice, now or where it begins; false when there is none to end.
  virtual bool end_reasoning() { return false; }
  /// All choices are done. Ends the answer.
  virtual void done(const std::vector<Choice>& choices) = 0;
  /// Ends the answer with an error.
  virtual void failed(const Error& error) = 0;
};

class Generation;

struct GenerationPlan {
  std::vector<engine::Request> requests;  // one a choice
  bool stream = false;
  std::chrono::milliseconds ping{0};  // 0: none
  std::string_view heartbeat = ":\n\n";
  int32_t id_slot = -1;
  int64_t t_max_predict_ms = 0;  // after the first token, once a line has ended; 0 = off
  int32_t n_indent = 0;          // ends at a line that is indented less; 0 = off
};

/// Chats whose thinking another request may end.
class ControlledChats {
 public:
  void add(int key_id, const std::string& id, const std::shared_ptr<Generation>& chat);
  /// Null when this key has none of this id that still runs.
  std::shared_ptr<Generation> find(int key_id, const std::string& id);

 private:
  std::mutex mutex_;  // guards the map
  std::map<std::pair<int, std::string>, std::weak_ptr<Generation>> chats_;
};

/// What handlers and running generations share. It may outlive the application's ServerState, so it
/// has its own copy, which does not keep the engine alive.
struct GenerationContext {
  explicit GenerationContext(const ServerState& server);
  ServerState state;  // state.model.engine is null
  std::weak_ptr<engine::Engine> engine;
  int32_t context_tokens = 0;
  StreamStore streams;
  ControlledChats controlled;
  EventPump pump;

  void cancel(engine::RequestId id) const noexcept;
};

class Generation final : public EventReceiver, public std::enable_shared_from_this<Generation> {
 public:
  /// Submits the plan and begins the answer. Whatever fails before that is answered with its
  /// status. With a full queue the first request is refused (503); further ones of the same plan
  /// wait for their predecessors.
  static std::shared_ptr<Generation> start(const std::shared_ptr<GenerationContext>& context,
                                           GenerationPlan plan,
                                           std::unique_ptr<AnswerWriter> writer,
                                           std::shared_ptr<Answer> answer);
  Generation(std::shared_ptr<GenerationContext> context, GenerationPlan plan,
             std::unique_ptr<AnswerWriter> writer, std::shared_ptr<Answer> answer);

  /// Ends every choice where it is; the writer finishes the answer. Any thread.
  void stop();
  /// Ends thinking and goes on with the answer. False when that cannot be done. Any thread.
  bool end_reasoning();
  void handle(uint32_t choice, engine::Event event) noexcept override;

 private:
  struct Pending {  // tokens whose text is not released
    TokenProbability token;
    size_t begin = 0;  // where its bytes begin in the text of the answer
  };
  struct Progress {
    std::deque<Pending> pending;
    size_t num_bytes = 0, num_released = 0;
    std::chrono::steady_clock::time_point first_token{};
    size_t line_begin = 0;  // in whole.text
    bool cut = false, finished = false;
  };

  bool begin();
  Result<bool> submit(uint32_t index);
  void submit_waiting();
  void client_gone() noexcept;
  void cancel_all() noexcept;
  void on_progress(Choice& c, const engine::ProgressEvent& event);
  void on_token(Choice& c, engine::TokenEvent event);
  void on_done(Choice& c, engine::DoneEvent event);
  void on_error(const Error& error);
  void release(Choice& c, std::string text, bool all);
  void force_text(Choice& c);
  void check_limits(Choice& c);
  size_t indent_cut(Choice& c, std::string& text);
  void finish_choice(Choice& c);

  std::shared_ptr<GenerationContext> context_;  // shared with the handlers
  GenerationPlan plan_;
  std::unique_ptr<AnswerWriter> writer_;
  std::shared_ptr<Answer> answer_;

  std::mutex mutex_;  // guards the choices, their progress, the writer and the answer
  std::vector<Choice> choices_;
  std::vector<Progress> progress_;
  uint32_t num_submitted_ = 0, num_finished_ = 0;
  bool ended_ = false;

  std::mutex cancel_mutex_;  // guards the members below; taken after mutex_
  std::vector<engine::RequestId> running_;
  bool gone_ = false, stopped_ = false;
};

}  // namespace mlxcel::serve
