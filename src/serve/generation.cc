#include "serve/generation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve {
namespace {

using Clock = std::chrono::steady_clock;

// What may wait for a reader that does not keep up, before its request is ended.
constexpr size_t kMaxQueuedBytes = size_t{32} << 20;

}  // namespace

void ControlledChats::add(int key_id, const std::string& id,
                          const std::shared_ptr<Generation>& chat) {
  const std::lock_guard lock(mutex_);
  std::erase_if(chats_, [](const auto& entry) { return entry.second.expired(); });
  chats_[{key_id, id}] = chat;
}

std::shared_ptr<Generation> ControlledChats::find(int key_id, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto it = chats_.find({key_id, id});
  return it == chats_.end() ? nullptr : it->second.lock();
}

GenerationContext::GenerationContext(const ServerState& server)
    : state(server),
      engine(server.model.engine),
      context_tokens(server.model.engine->context_tokens()) {
  state.model.engine.reset();
}

void GenerationContext::cancel(engine::RequestId id) const noexcept {
  if (const auto running = engine.lock()) running->cancel(id);
}

Generation::Generation(std::shared_ptr<GenerationContext> context, GenerationPlan plan,
                       std::unique_ptr<AnswerWriter> writer, std::shared_ptr<Answer> answer)
    : context_(std::move(context)),
      plan_(std::move(plan)),
      writer_(std::move(writer)),
      answer_(std::move(answer)) {
  choices_.resize(plan_.requests.size());
  progress_.resize(plan_.requests.size());
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    c.index = i;
    c.request = std::move(plan_.requests[i]);
    c.prompt = std::move(c.request.prompt);
    c.request.report_progress = true;
  }
}

std::shared_ptr<Generation> Generation::start(const std::shared_ptr<GenerationContext>& context,
                                              GenerationPlan plan,
                                              std::unique_ptr<AnswerWriter> writer,
                                              std::shared_ptr<Answer> answer) {
  const auto generation =
      std::make_shared<Generation>(context, std::move(plan), std::move(writer), std::move(answer));
  if (!generation->begin()) return nullptr;
  generation->answer_->exchange().on_close([weak = generation->weak_from_this()] {
    if (const auto g = weak.lock()) g->client_gone();
  });
  if (StreamTee* tee = generation->answer_->tee()) {
    tee->set_stop([weak = generation->weak_from_this()] {
      if (const auto g = weak.lock()) g->stop();
    });
  }
  return generation;
}

// False when the answer is an error already.
bool Generation::begin() {
  const std::lock_guard lock(mutex_);
  const int32_t context_tokens = context_->context_tokens;
  for (const Choice& c : choices_) {
    const auto num_prompt = static_cast<int64_t>(c.prompt.size());
    if (num_prompt < context_tokens) continue;
    answer_->fail(wire::context_exceeded(num_prompt, context_tokens), writer_->envelope());
    return false;
  }
  try {
    for (const Choice& c : choices_) engine::validate(c.request.sampling);
    if (choices_.empty()) throw Error(Code::InvalidArgument, "'prompt': the list is empty");
    const Result<bool> first = submit(0);
    if (!first.ok()) throw first.error();
  } catch (const Error& e) {
    answer_->fail(to_api_error(e), writer_->envelope());
    return false;
  }
  if (plan_.stream) answer_->begin_events(plan_.ping, plan_.heartbeat);
  writer_->begin(choices_);
  submit_waiting();
  return true;
}

// False when the queue is full and something of this generation still runs.
Result<bool> Generation::submit(uint32_t index) {
  Choice& c = choices_[index];
  engine::Request request = c.request;
  request.prompt = c.prompt;
  const std::lock_guard lock(cancel_mutex_);
  if (gone_ || stopped_) return false;
  const auto engine = context_->engine.lock();
  if (!engine) return Error(Code::ResourceExhausted, "the server is shutting down");
  const Result<engine::RequestId> id =
      engine->submit(std::move(request), context_->pump.sink(shared_from_this(), index));
  if (!id.ok()) {
    const bool full = id.error().code() == Code::ResourceExhausted;
    if (full && num_submitted_ > num_finished_) return false;
    return id.error();
  }
  c.id = id.value();
  running_.push_back(c.id);
  ++num_submitted_;
  return true;
}

void Generation::submit_waiting() {
  while (num_submitted_ < choices_.size()) {
    const Result<bool> submitted = submit(num_submitted_);
    if (!submitted.ok()) return on_error(submitted.error());
    if (!submitted.value()) return;
    force_text(choices_[num_submitted_ - 1]);
  }
}

void Generation::client_gone() noexcept {
  if (StreamTee* tee = answer_->tee(); tee != nullptr && tee->keeps_running()) return;
  {
    const std::lock_guard lock(cancel_mutex_);
    gone_ = true;
  }
  cancel_all();
}

void Generation::stop() {
  {
    const std::lock_guard lock(cancel_mutex_);
    stopped_ = true;
  }
  cancel_all();
}

bool Generation::end_reasoning() {
  const std::lock_guard lock(mutex_);
  if (ended_ || !writer_->end_reasoning()) return false;
  for (Choice& c : choices_) force_text(c);
  return true;
}

void Generation::cancel_all() noexcept {
  const std::lock_guard lock(cancel_mutex_);
  for (const engine::RequestId id : running_) context_->cancel(id);
}

void Generation::handle(uint32_t choice, engine::Event event) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    Choice& c = choices_.at(choice);
    if (auto* token = std::get_if<engine::TokenEvent>(&event)) {
      on_token(c, std::move(*token));
    } else if (auto* done = std::get_if<engine::DoneEvent>(&event)) {
      on_done(c, std::move(*done));
    } else if (auto* progress = std::get_if<engine::ProgressEvent>(&event)) {
      on_progress(c, *progress);
    } else {
      finish_choice(c);
      on_error(std::get<Error>(event));
    }
  } catch (const Error& e) {
    on_error(e);
  } catch (const std::exception& e) {
    on_error(Error(Code::Internal, e.what()));
  }
}

void Generation::on_progress(Choice& c, const engine::ProgressEvent& event) {
  c.num_cached = event.num_cached;
  c.num_processed = event.num_processed;
  c.queue_ms = event.queue_ms;
  c.prefill_ms = event.prefill_ms;
  SlotTable& slots = *context_->state.slots;
  if (c.slot < 0) {
    SlotTable::State state;
    state.task_id = c.id;
    state.num_prompt = event.num_prompt;
    state.num_cached = event.num_cached;
    state.num_processed = event.num_processed;
    state.num_remaining = c.request.max_tokens;
    state.params = wire::settings_json(c.request, plan_.stream);
    if (slots.keeps_text()) {
      state.prompt = context_->state.model.tokenizer->decode(c.prompt, false);
    }
    c.slot = slots.acquire(plan_.id_slot, std::move(state));
  } else {
    slots.progress(c.slot, event.num_processed);
  }
  if (!ended_) writer_->progress(c);
}

void Generation::on_token(Choice& c, engine::TokenEvent event) {
  Progress& p = progress_[c.index];
  if (p.cut || ended_) return;
  const auto now = Clock::now();
  if (c.num_generated++ == 0) p.first_token = now;
  c.decode_ms = std::chrono::duration<double, std::milli>(now - p.first_token).count();
  const text::Tokenizer& tokenizer = *context_->state.model.tokenizer;
  if (p.num_bytes == 0 && event.text.size() + 1 == tokenizer.bytes(event.id).size()) {
    p.num_released = 1;  // a leading space that decoding drops
  }
  p.pending.push_back({{event.id, event.logprob, std::move(event.top)}, p.num_bytes});
  if (!c.request.skip_special_text || !tokenizer.is_special(event.id)) {
    p.num_bytes += tokenizer.bytes(event.id).size();
  }
  std::string text = std::move(event.text);
  const size_t kept = indent_cut(c, text);
  const bool cut = kept < text.size();
  text.resize(kept);
  if (text.find('\n') != std::string::npos) c.has_new_line = true;
  const int32_t remaining =
      c.request.max_tokens < 0 ? -1 : std::max(0, c.request.max_tokens - c.num_generated);
  context_->state.slots->decoded(c.slot, c.num_generated, remaining, c.has_new_line, text);
  release(c, std::move(text), false);
  if (cut) {
    p.cut = true;
    c.stop = StopType::Limit;
    context_->cancel(c.id);
  }
  check_limits(c);
}

// How much of `text` the limit of indentation leaves.
size_t Generation::indent_cut(Choice& c, std::string& text) {
  if (plan_.n_indent <= 0) return text.size();
  Progress& p = progress_[c.index];
  const std::string& before = c.whole.text;
  size_t line = p.line_begin;
  bool indented =
      p.line_begin > 0 && before.find_first_not_of(" \t", p.line_begin) == std::string::npos;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t at = before.size() + i;
    if (text[i] == '\n') {
      line = at + 1;
      indented = true;
    } else if (indented && text[i] != ' ' && text[i] != '\t') {
      if (at - line < static_cast<size_t>(plan_.n_indent)) return i;
      indented = false;
    }
  }
  p.line_begin = line;
  return text.size();
}

void Generation::check_limits(Choice& c) {
  Progress& p = progress_[c.index];
  if (p.cut) return;
  const bool late = plan_.t_max_predict_ms > 0 && c.has_new_line &&
                    c.decode_ms > static_cast<double>(plan_.t_max_predict_ms);
  if (late) {
    p.cut = true;
    c.stop = StopType::Limit;
    context_->cancel(c.id);
  }
  if (answer_->exchange().queued_bytes() > kMaxQueuedBytes) {
    log::warn("a client reads too slowly; its request is ended");
    client_gone();
  }
}

// Hands out `text` with the tokens that begin in what is released by now (`all`: every token).
void Generation::release(Choice& c, std::string text, bool all) {
  Progress& p = progress_[c.index];
  if (text.empty() && !(all && !p.pending.empty())) return;
  TextDelta delta;
  p.num_released += text.size();
  delta.text = std::move(text);
  const bool wants = c.request.sampling.want_logprob || c.request.sampling.num_logprobs > 0;
  while (!p.pending.empty() && (all || p.pending.front().begin < p.num_released)) {
    TokenProbability& token = p.pending.front().token;
    delta.ids.push_back(token.id);
    if (wants) delta.probabilities.push_back(std::move(token));
    p.pending.pop_front();
  }
  TextDelta& whole = c.whole;
  whole.text += delta.text;
  whole.ids.insert(whole.ids.end(), delta.ids.begin(), delta.ids.end());
  whole.probabilities.insert(whole.probabilities.end(), delta.probabilities.begin(),
                             delta.probabilities.end());
  if (!ended_) writer_->delta(c, delta);
  force_text(c);
}

void Generation::force_text(Choice& c) {
  // What is asked before the engine knows the request is done when it does.
  if (c.id == 0 || ended_ || progress_[c.index].finished) return;
  const std::string text = writer_->take_forced(c);
  if (text.empty()) return;
  const auto engine = context_->engine.lock();
  const auto ids = context_->state.model.tokenizer->encode(text, {.add_special_tokens = false});
  if (engine && !ids.empty()) engine->force(c.id, ids);
}

void Generation::on_done(Choice& c, engine::DoneEvent event) {
  Progress& p = progress_[c.index];
  c.num_cached = event.num_cached;
  c.queue_ms = event.queue_ms;
  c.prefill_ms = event.prefill_ms;
  if (!p.cut) {
    c.decode_ms = event.decode_ms;
    if (event.text.find('\n') != std::string::npos) c.has_new_line = true;
    const bool word = !event.matched_stop.empty();
    release(c, std::move(event.text), !word);
    c.stopping_word = std::move(event.matched_stop);
    c.stop = word                                     ? StopType::Word
             : event.reason == engine::Finish::Stop   ? StopType::Eos
             : event.reason == engine::Finish::Length ? StopType::Limit
                                                      : StopType::None;
  }
  const auto length = static_cast<int64_t>(c.prompt.size()) + c.num_generated;
  c.truncated = c.stop == StopType::Limit && length >= context_->context_tokens;
  finish_choice(c);
  bool ours = false;
  {
    const std::lock_guard lock(cancel_mutex_);
    ours = gone_ || stopped_;
  }
  if (c.stop == StopType::None && !ours) {
    return on_error(Error(Code::ResourceExhausted, "the server is shutting down"));
  }
  if (ended_) return;
  writer_->choice_done(c);
  submit_waiting();
  if (num_finished_ < num_submitted_ || ended_) return;
  ended_ = true;
  writer_->done(choices_);
}

void Generation::finish_choice(Choice& c) {
  Progress& p = progress_[c.index];
  if (std::exchange(p.finished, true)) return;
  ++num_finished_;
  if (c.slot >= 0) context_->state.slots->release(c.slot);
  const std::lock_guard lock(cancel_mutex_);
  std::erase(running_, c.id);
}

void Generation::on_error(const Error& error) {
  if (std::exchange(ended_, true)) return;
  writer_->failed(error);
  cancel_all();
}

}  // namespace mlxcel::serve
