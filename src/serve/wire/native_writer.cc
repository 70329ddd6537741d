// llama-server's own completion objects.
#include "serve/wire/api_error.h"
#include "serve/wire/completion.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve::wire {
namespace {

Json ids_json(const std::vector<text::TokenId>& ids) {
  Json out = Json::array();
  for (const text::TokenId id : ids) out.push_back(id);
  return out;
}

std::string_view stop_name(StopType stop) {
  switch (stop) {
    case StopType::Eos:
      return "eos";
    case StopType::Limit:
      return "limit";
    case StopType::Word:
      return "word";
    case StopType::None:
      break;
  }
  return "none";
}

/// "timings/predicted_n" walks into objects; what is not there is left out.
Json select_fields(const Json& full, const std::vector<std::string>& paths) {
  Json out = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &full;
    size_t begin = 0;
    while (at != nullptr && begin <= path.size()) {
      const size_t end = std::min(path.find('/', begin), path.size());
      at = at->find(std::string_view(path).substr(begin, end - begin));
      begin = end + 1;
    }
    if (at != nullptr) out.set(path, *at);
  }
  return out;
}

class NativeWriter final : public AnswerWriter {
 public:
  NativeWriter(const ServerState& state, std::shared_ptr<Answer> answer, CompletionRequest request)
      : state_(state), answer_(std::move(answer)), request_(std::move(request)) {}

  void progress(const Choice& c) override {
    if (!request_.options.stream || !request_.options.return_progress) return;
    Json frame = partial(c, {});
    frame.set("prompt_progress", progress_json(c));
    answer_->data(frame);
  }

  void delta(const Choice& c, const TextDelta& d) override {
    if (!request_.options.stream) return;
    Json frame = partial(c, d);
    if (request_.options.timings_per_token) frame.set("timings", timings_json(c));
    if (!d.probabilities.empty()) frame.set("completion_probabilities", probabilities(d));
    answer_->data(frame);
  }

  void choice_done(const Choice& c) override {
    if (request_.options.stream) answer_->data(full(c));
  }

  void done(const std::vector<Choice>& choices) override {
    if (request_.options.stream) return answer_->finish();
    if (choices.size() == 1) return answer_->reply(full(choices[0]));
    Json list = Json::array();
    for (const Choice& c : choices) list.push_back(full(c));
    answer_->reply(list);
  }

  void failed(const Error& error) override { answer_->fail(to_api_error(error), Envelope::OpenAi); }

 private:
  Json probabilities(const TextDelta& d) const {
    return probabilities_json(*state_.model.tokenizer, d.probabilities,
                              request_.base.sampling.post_sampling_probs, true);
  }

  static Json partial(const Choice& c, const TextDelta& d) {
    return Json::object({{"index", static_cast<int64_t>(c.index)},
                         {"content", d.text},
                         {"tokens", ids_json(d.ids)},
                         {"stop", false},
                         {"id_slot", c.slot},
                         {"tokens_predicted", c.num_generated},
                         {"tokens_evaluated", static_cast<int64_t>(c.prompt.size())}});
  }

  Json full(const Choice& c) const {
    const bool stream = request_.options.stream;
    const auto num_prompt = static_cast<int64_t>(c.prompt.size());
    const auto prompt = c.index / static_cast<size_t>(request_.choices_per_prompt);
    Json out = Json::object(
        {{"index", static_cast<int64_t>(c.index)},
         {"content", stream ? Json("") : Json(c.whole.text)},
         {"tokens", stream || !request_.return_tokens ? Json::array() : ids_json(c.whole.ids)},
         {"id_slot", c.slot},
         {"stop", true},
         {"model", state_.model.id},
         {"tokens_predicted", c.num_generated},
         {"tokens_evaluated", num_prompt},
         {"generation_settings", settings_json(c.request, stream)},
         {"prompt", request_.prompts[prompt].text},
         {"has_new_line", c.has_new_line},
         {"truncated", c.truncated},
         {"stop_type", stop_name(c.stop)},
         {"stopping_word", c.stopping_word},
         {"tokens_cached", num_prompt + std::max(c.num_generated - 1, 0)},
         {"timings", timings_json(c)}});
    if (!stream && !c.whole.probabilities.empty()) {
      out.set("completion_probabilities", probabilities(c.whole));
    }
    return request_.response_fields.empty() ? out : select_fields(out, request_.response_fields);
  }

  const ServerState& state_;
  std::shared_ptr<Answer> answer_;  // shared with the generation
  CompletionRequest request_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_native_writer(const ServerState& state,
                                                 std::shared_ptr<Answer> answer,
                                                 CompletionRequest request) {
  return std::make_unique<NativeWriter>(state, std::move(answer), std::move(request));
}

}  // namespace mlxcel::serve::wire
