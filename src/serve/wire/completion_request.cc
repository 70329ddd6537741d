#include <fmt/core.h>

#include <algorithm>

#include "serve/wire/api_error.h"
#include "serve/wire/completion.h"
#include "serve/wire/sampling.h"

namespace mlxcel::serve::wire {
namespace {

constexpr int32_t kMaxChoices = 128;
constexpr int32_t kMaxTop = 256;  // an answer of n tokens holds n times as many entries

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

void read_slot(Fields& f, const ServerState& state, int32_t& slot) {
  f.integer("id_slot", slot, -1, state.num_slots - 1);
}

/// Accepted so that clients of llama-server need no change; neutral here.
void check_inert(Fields& f) {
  int32_t ignored = 0;
  f.integer("n_keep", ignored, -1);
  f.integer("n_discard", ignored, 0);
  f.integer("n_cache_reuse", ignored, 0);
}

}  // namespace

void read_stream_options(Fields& f, const ServerState& state, StreamOptions& out) {
  out.ping = state.ping_interval;
  f.boolean("stream", out.stream);
  f.boolean("timings_per_token", out.timings_per_token);
  f.boolean("return_progress", out.return_progress);
  int32_t seconds = static_cast<int32_t>(out.ping.count() / 1000);
  if (f.has("sse_ping_interval")) {
    f.integer("sse_ping_interval", seconds, -1, 86400);
    out.ping = std::chrono::seconds(std::max(seconds, 0));
  }
  const Json* options = f.get("stream_options");
  if (options == nullptr || !options->is_object() || !f.ok()) return;
  Fields inner(*options, "stream_options.");
  inner.boolean("include_usage", out.include_usage);
  if (!inner.ok()) f.fail(inner.error());
}

engine::Request read_base_request(Fields& f, const ServerState& state) {
  const std::shared_ptr<const RequestDefaults> defaults = state.defaults();
  engine::Request request;
  request.sampling = defaults->sampling;
  read_sampling(f, *state.model.tokenizer, request.sampling);
  read_max_tokens(f, defaults->max_tokens, defaults->max_tokens_is_cap, request.max_tokens);
  read_stop(f, "stop", request.stop_strings);
  request.stop_strings.insert(request.stop_strings.end(), defaults->stop.begin(),
                              defaults->stop.end());
  request.grammar = read_grammar(f, *state.grammars, defaults->grammar);
  read_extensions(f);
  f.integer("min_pattern_size", request.loop_detection.min_pattern_size, 0);
  f.integer("max_pattern_size", request.loop_detection.max_pattern_size, 0);
  f.integer("min_count", request.loop_detection.min_count, 0);
  f.boolean("cache_prompt", request.use_prefix_cache);
  f.string("prompt_cache_key", request.cache_scope);
  request.stop_ids = state.model.stop_ids;
  return request;
}

CompletionRequest read_native_fields(Fields& f, const ServerState& state,
                                     std::vector<Prompt> prompts) {
  CompletionRequest r;
  r.prompts = std::move(prompts);
  r.base = read_base_request(f, state);
  r.base.continues_text = true;
  read_stream_options(f, state, r.options);
  f.integer(f.first_of({"n_cmpl", "n"}), r.choices_per_prompt, 1, kMaxChoices);
  f.integer("n_probs", r.base.sampling.num_logprobs, 0, kMaxTop);
  r.base.sampling.want_logprob = r.base.sampling.num_logprobs > 0;
  f.boolean("post_sampling_probs", r.base.sampling.post_sampling_probs);
  f.boolean("return_tokens", r.return_tokens);
  f.integer64("t_max_predict_ms", r.t_max_predict_ms, -1);
  f.integer("n_indent", r.n_indent, 0);
  read_slot(f, state, r.id_slot);
  check_inert(f);
  int32_t budget = -1;
  f.integer("thinking_budget_tokens", budget, -1);
  if (f.ok() && budget >= 0) {
    f.fail("thinking_budget_tokens", "completions have no thinking to limit; use the chat routes");
  }
  if (const Json* fields = f.get("response_fields"); fields != nullptr && fields->is_array()) {
    const bool all_strings =
        std::ranges::all_of(fields->as_array(), [](const Json& j) { return j.is_string(); });
    if (all_strings) f.strings("response_fields", r.response_fields);
  }
  if (!f.ok()) throw f.error();
  return r;
}

CompletionRequest read_native_completion(const Json& body, const ServerState& state) {
  Fields f(body);
  std::vector<Prompt> prompts = read_prompts(f, "prompt", *state.model.tokenizer);
  return read_native_fields(f, state, std::move(prompts));
}

CompletionRequest read_openai_completion(const Json& body, const ServerState& state) {
  Fields f(body);
  CompletionRequest r;
  const Json* prompt = f.get("prompt");
  if (prompt != nullptr && prompt->is_string() && !prompt->as_string().empty() &&
      is_blank(prompt->as_string())) {
    f.fail("prompt", "is blank");
  }
  std::vector<Prompt> prompts = read_prompts(f, "prompt", *state.model.tokenizer);
  int32_t logprobs = -1;
  f.integer("logprobs", logprobs, 0, kMaxTop);
  f.boolean("echo", r.echo);
  std::string suffix;
  f.string("suffix", suffix);
  if (f.ok() && !suffix.empty()) {
    f.fail(unsupported_field("suffix", "use POST /infill, which knows the model's markers"));
  }
  int32_t n = 1;
  f.integer("n", n, 1, kMaxChoices);
  int32_t best_of = n;
  f.integer("best_of", best_of, 1);
  if (f.ok() && best_of != n) {
    f.fail(
        unsupported_field("best_of", "answers are not ranked: leave it out or let it equal 'n'"));
  }
  std::string ignored;
  f.string("model", ignored);
  f.string("user", ignored);
  if (!f.ok()) throw f.error();
  const bool echo = r.echo;
  r = read_native_fields(f, state, std::move(prompts));
  r.echo = echo;
  if (logprobs >= 0) {
    r.base.sampling.want_logprob = true;
    r.base.sampling.num_logprobs = logprobs;
  }
  return r;
}

void score_prompts(CompletionRequest& request, engine::Engine& engine) {
  const engine::SamplingParams& p = request.base.sampling;
  if (!request.echo || !p.want_logprob) return;
  const auto fits = [&](const Prompt& prompt) {
    return static_cast<int64_t>(prompt.ids.size()) < engine.context_tokens();
  };
  if (!std::ranges::all_of(request.prompts, fits)) return;  // refused when it is submitted
  for (const Prompt& prompt : request.prompts) {
    std::vector<TokenProbability> list;
    for (auto& token : engine.score_tokens(prompt.ids, p.num_logprobs).value()) {
      list.push_back({token.id, token.logprob, std::move(token.top)});
    }
    request.prompt_probabilities.push_back(std::move(list));
  }
}

GenerationPlan make_plan(const CompletionRequest& request) {
  GenerationPlan plan;
  plan.stream = request.options.stream;
  plan.ping = request.options.ping;
  plan.id_slot = request.id_slot;
  plan.n_indent = request.n_indent;
  plan.t_max_predict_ms = std::max<int64_t>(request.t_max_predict_ms, 0);
  for (const Prompt& prompt : request.prompts) {
    for (int32_t i = 0; i < request.choices_per_prompt; ++i) {
      engine::Request one = request.base;
      one.prompt = prompt.ids;
      if (one.sampling.seed) *one.sampling.seed += static_cast<uint64_t>(i);
      plan.requests.push_back(std::move(one));
    }
  }
  return plan;
}

}  // namespace mlxcel::serve::wire
