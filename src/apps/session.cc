#include "apps/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "apps/memory_estimate.h"
#include "base/error.h"
#include "base/utf8.h"

namespace mlxcel::apps {
namespace {

/// The text of a single user message.
const std::string& only_text(const Json& messages) {
  return messages.as_array().back().find("content")->as_string();
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

Session::Session(const GenerateArguments& arguments) : arguments_(arguments) {
  check_environment();
  device_ = choose_device();
  const ModelArguments& m = arguments_.model;
  io::Resolved location = io::resolve_model(m.model, m.hub);
  fmt::print(stderr, "Loading model from {}\n", location.path);
  model_ = load_without_weights(m.model, std::move(location));
  grammar_ = compile_grammar(arguments_.grammar, model_.tokenizer.get());
}

PreparedPrompt Session::prepare(const Json& messages, PromptStyle style) const {
  const auto start = std::chrono::steady_clock::now();
  const std::string& text = only_text(messages);
  if (!utf8::is_valid(text)) throw Error(Code::InvalidArgument, "the prompt is not valid UTF-8");
  if (is_blank(text) && style != PromptStyle::Raw) {
    throw Error(Code::InvalidArgument, "the prompt is empty");
  }
  PreparedPrompt prompt;
  prompt.raw = style == PromptStyle::Raw || (style == PromptStyle::Completion && !has_template());
  prompt.generic = !prompt.raw && !has_template();
  if (prompt.raw) {
    prompt.rendered.text = text;
    prompt.rendered.ids = serve::tokenize_raw(*model_.tokenizer, text);
  } else {
    prompt.rendered = serve::render_chat(model_.chat, *model_.tokenizer, messages, Json()).value();
  }
  if (prompt.rendered.ids.empty()) {
    throw Error(Code::InvalidArgument, "the prompt is empty: not one token comes of it");
  }
  prompt.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return prompt;
}

void Session::check_memory(int64_t prompt_tokens) const {
  if (!arguments_.estimate_memory) return;
  EstimateInputs inputs;
  inputs.context_tokens = arguments_.max_tokens >= 0
                              ? prompt_tokens + arguments_.max_tokens
                              : std::max(prompt_tokens, inputs.context_tokens);
  const MemoryEstimate estimate = estimate_memory(model_.location.path, model_.name, inputs);
  fmt::print(stderr, "{}\n", estimate_banner(estimate));
  if (estimate.fits) return;
  const std::string what = fmt::format("the model needs about {}, and {} are available",
                                       byte_text(estimate.total), byte_text(estimate.available));
  if (!arguments_.force) {
    throw Error(Code::ResourceExhausted, what + "; --force tries it all the same");
  }
  fmt::print(stderr, "warning: {}\n", what);
}

void Session::start(bool prefix_cache) {
  load_weights(model_, device_);
  fmt::print(stderr, "Model loaded in {:.2f}s.\n", model_.load_seconds);
  engine::EngineOptions options;
  options.max_batch = 1;
  options.prefix_cache = prefix_cache;
  engine_ = engine::Engine::start(model_.lm, model_.tokenizer, options);
}

engine::Request Session::request(const PreparedPrompt& prompt,
                                 const engine::SamplingParams& sampling,
                                 std::string cache_scope) const {
  engine::Request request;
  request.prompt = prompt.rendered.ids;
  request.sampling = sampling;
  request.max_tokens = arguments_.max_tokens;
  request.loop_detection =
      engine::loop_detection_from_environment().value_or(engine::LoopDetection{});
  request.stop_ids = model_.eos_ids;
  request.stop_strings = arguments_.stop;
  if (prompt.generic) {
    for (const std::string& stop : serve::generic_stop_strings()) {
      request.stop_strings.push_back(stop);
    }
  }
  request.grammar = grammar_;
  if (grammar_ && !prompt.raw && !prompt.generic) {
    request.constraint.after =
        text::reasoning_end(model_.chat.template_source, prompt.rendered.text);
  }
  request.use_prefix_cache = !cache_scope.empty();
  request.cache_scope = std::move(cache_scope);
  return request;
}

TurnResult Session::turn(engine::Request request, const PreparedPrompt& prompt) {
  TurnOptions options;
  options.show_reasoning = arguments_.show_reasoning;
  if (!prompt.raw && has_template()) {
    options.parser = text::make_reasoning_parser(model_.chat.template_source, prompt.rendered.text);
  }
  if (options.parser && options.parser->needs_special_text()) request.skip_special_text = false;
  options.prepare_seconds = prompt.seconds;
  return run_turn(*engine_, std::move(request), std::move(options));
}

engine::SamplingParams Session::chat_sampling() const {
  engine::SamplingParams server;
  server.temperature = 0.8F;
  server.top_k = 40;
  server.top_p = 0.9F;
  server.min_p = 0.1F;
  server.repeat_last_n = 64;
  server.dry_penalty_last_n = 64;
  server = model_.defaults.over(server);
  if (!model_.defaults.temperature) server.temperature = 0.0F;
  return arguments_.sampling.over(server);
}

engine::SamplingParams Session::completion_sampling() const { return arguments_.sampling.over({}); }

Json user_message(const std::string& text) {
  return Json::array({Json::object({{"role", "user"}, {"content", text}})});
}

void print_base_model_note(const std::string& name) {
  fmt::print(
      stderr,
      "note: {} has no chat template and is probably a base model; it is prompted in a plain "
      "generic format. --no-chat-template gives it your text as it is.\n",
      name);
}

}  // namespace mlxcel::apps
