// OpenAI's "text_completion" objects.
#include "base/utf8.h"
#include "serve/wire/api_error.h"
#include "serve/wire/completion.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve::wire {
namespace {

class CompletionWriter final : public AnswerWriter {
 public:
  CompletionWriter(const ServerState& state, std::shared_ptr<Answer> answer,
                   CompletionRequest request)
      : state_(state),
        answer_(std::move(answer)),
        request_(std::move(request)),
        id_(random_id("cmpl-")),
        created_(unix_seconds()) {}

  void begin(const std::vector<Choice>& choices) override {
    offsets_.resize(choices.size());
    if (!request_.echo) return;
    for (const Choice& c : choices) {
      const std::vector<TokenProbability> tokens = prompt_probabilities(c);
      if (tokens.empty()) offsets_[c.index] = utf8::count(prompt_text(c));
      if (request_.options.stream) {
        const Json scores = tokens.empty() ? Json() : logprobs(c, tokens, true);
        answer_->data(frame(choice_json(c, prompt_text(c), scores, Json())));
      }
    }
  }

  void progress(const Choice& c) override {
    if (!request_.options.stream || !request_.options.return_progress) return;
    Json out = frame(choice_json(c, "", Json(), Json()));
    out.set("prompt_progress", progress_json(c));
    answer_->data(out);
  }

  void delta(const Choice& c, const TextDelta& d) override {
    if (!request_.options.stream) return;
    if (head_.empty()) head_ = chunk_head(frame(Json::array()));
    const Json choices = choice_json(c, d.text, logprobs(c, d.probabilities, false), Json());
    answer_->data_text(
        chunk_text(head_, choices, request_.options.timings_per_token ? &c : nullptr));
  }

  void choice_done(const Choice& c) override {
    if (!request_.options.stream) return;
    Json out = frame(choice_json(c, "", Json(), finish_reason(c)));
    if (!request_.options.include_usage) out.set("timings", timings_json(c));
    answer_->data(out);
  }

  void done(const std::vector<Choice>& choices) override {
    const Json usage = usage_json(choices, static_cast<size_t>(request_.choices_per_prompt));
    if (request_.options.stream) {
      if (request_.options.include_usage) {
        Json out = frame(Json::array());
        out.set("usage", usage);
        out.set("timings", timings_json(choices.front()));
        answer_->data(out);
      }
      answer_->data_text("[DONE]");
      return answer_->finish();
    }
    Json list = Json::array();
    for (const Choice& c : choices) {
      const std::string text = request_.echo ? prompt_text(c) + c.whole.text : c.whole.text;
      std::vector<TokenProbability> tokens = prompt_probabilities(c);
      const bool scored = !tokens.empty();
      tokens.insert(tokens.end(), c.whole.probabilities.begin(), c.whole.probabilities.end());
      list.push_back(
          choice_json(c, text, logprobs(c, tokens, scored), finish_reason(c)).as_array()[0]);
    }
    Json out = frame(std::move(list));
    out.set("usage", usage);
    out.set("timings", timings_json(choices.front()));
    answer_->reply(out);
  }

  void failed(const Error& error) override { answer_->fail(to_api_error(error), Envelope::OpenAi); }

 private:
  const std::string& prompt_text(const Choice& c) const {
    return request_.prompts[c.index / static_cast<size_t>(request_.choices_per_prompt)].echo;
  }

  /// Empty unless the prompt is echoed with its log-probabilities.
  std::vector<TokenProbability> prompt_probabilities(const Choice& c) const {
    const auto prompt = c.index / static_cast<size_t>(request_.choices_per_prompt);
    const auto& all = request_.prompt_probabilities;
    return prompt < all.size() ? all[prompt] : std::vector<TokenProbability>();
  }

  Json frame(Json choices) const {
    return Json::object({{"id", id_},
                         {"object", "text_completion"},
                         {"created", created_},
                         {"model", state_.model.id},
                         {"system_fingerprint", system_fingerprint()},
                         {"choices", std::move(choices)}});
  }

  /// A list of one choice.
  static Json choice_json(const Choice& c, std::string_view text, Json logprobs, Json finish) {
    return Json::array({Json::object({{"index", static_cast<int64_t>(c.index)},
                                      {"text", text},
                                      {"logprobs", std::move(logprobs)},
                                      {"finish_reason", std::move(finish)}})});
  }

  /// Four parallel lists; `text_offset` counts characters from the beginning of the text.
  /// `at_start`: the first token has nothing before it and so no probability.
  Json logprobs(const Choice& c, std::span<const TokenProbability> list, bool at_start) {
    if (!request_.base.sampling.want_logprob) return {};
    const text::Tokenizer& tokenizer = *state_.model.tokenizer;
    Json tokens = Json::array();
    Json values = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    size_t& offset = offsets_[c.index];
    for (const TokenProbability& t : list) {
      const std::string text = token_text(tokenizer, t.id);
      const bool none = at_start && tokens.size() == 0;
      tokens.push_back(text);
      values.push_back(none ? Json() : Json(static_cast<double>(t.logprob)));
      Json top = Json::object();
      for (const auto& [id, logprob] : t.top) {
        const std::string name = token_text(tokenizer, id);
        if (top.find(name) == nullptr) top.set(name, static_cast<double>(logprob));
      }
      tops.push_back(none ? Json() : std::move(top));
      offsets.push_back(static_cast<int64_t>(offset));
      if (!tokenizer.is_special(t.id)) offset += utf8::count(text);
    }
    return Json::object({{"tokens", std::move(tokens)},
                         {"token_logprobs", std::move(values)},
                         {"top_logprobs", std::move(tops)},
                         {"text_offset", std::move(offsets)}});
  }

  const ServerState& state_;
  std::shared_ptr<Answer> answer_;  // shared with the generation
  CompletionRequest request_;
  std::string id_;
  int64_t created_;
  std::string head_;             // of every chunk
  std::vector<size_t> offsets_;  // characters of each choice with log-probabilities so far
};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_completion_writer(const ServerState& state,
                                                            std::shared_ptr<Answer> answer,
                                                            CompletionRequest request) {
  return std::make_unique<CompletionWriter>(state, std::move(answer), std::move(request));
}

}  // namespace mlxcel::serve::wire
