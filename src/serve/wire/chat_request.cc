#include <fmt/core.h>

#include <algorithm>

#include "serve/wire/api_error.h"
#include "serve/wire/chat.h"
#include "serve/wire/native_json.h"
#include "serve/wire/sampling.h"

namespace mlxcel::serve::wire {
namespace {

constexpr int32_t kMaxChoices = 128;
constexpr int32_t kMaxTop = 256;  // an answer of n tokens holds n times as many entries

/// SDKs put further members flat into the body or below "extra_body".
void merge_extra_body(Json& body) {
  const Json* extra = body.find("extra_body");
  if (extra == nullptr || !extra->is_object()) return;
  const Json copy = *extra;
  for (const auto& [key, value] : copy.as_object()) {
    if (body.find(key) == nullptr) body.set(key, value);
  }
}

/// Words that switch thinking off; any other effort switches it on and is passed through.
void apply_effort(std::string_view effort, const ChatFormat& format, Json& context) {
  const auto off = {"none", "off", "disabled", "false", "0"};
  const bool thinks = std::ranges::find(off, effort) == off.end();
  context.set("enable_thinking", thinks);
  if (!thinks) return;
  const bool strength = format.template_source.find("reasoning_strength") != std::string::npos;
  context.set(strength ? "reasoning_strength" : "reasoning_effort", effort);
}

void read_template_variables(Fields& f, const ServerState& state, Json& context) {
  const std::shared_ptr<const RequestDefaults> defaults = state.defaults();
  if (defaults->chat_template_kwargs.is_object()) {
    for (const auto& [key, value] : defaults->chat_template_kwargs.as_object()) {
      context.set(key, value);
    }
  }
  std::string effort;
  f.string("reasoning_effort", effort);
  if (const Json* reasoning = f.get("reasoning"); reasoning != nullptr && reasoning->is_object()) {
    Fields inner(*reasoning, "reasoning.");
    inner.string("effort", effort);
    if (!inner.ok()) f.fail(inner.error());
  }
  if (!effort.empty()) apply_effort(effort, state.model.chat, context);
  if (const Json* kwargs = f.object("chat_template_kwargs"); kwargs != nullptr) {
    for (const auto& [key, value] : kwargs->as_object()) {
      if (key == "messages" || key == "tools" || key == "add_generation_prompt") {
        return f.fail("chat_template_kwargs", fmt::format("'{}' has a field of its own", key));
      }
      context.set(key, value);
    }
  }
}

ReasoningFormat read_reasoning_format(Fields& f, const GenerationOptions& options) {
  std::string name;
  f.choice("reasoning_format", name, {"none", "auto", "deepseek", "deepseek-legacy"});
  if (name == "none") return ReasoningFormat::None;
  if (name == "deepseek-legacy") return ReasoningFormat::DeepseekLegacy;
  return name.empty() ? options.reasoning_format : ReasoningFormat::Deepseek;
}

void read_logprobs(Fields& f, ChatRequest& r) {
  engine::SamplingParams& p = r.base.sampling;
  f.boolean("logprobs", r.logprobs);
  int32_t top = 0;
  f.integer("top_logprobs", top, 0, kMaxTop);
  if (f.ok() && f.has("top_logprobs") && !r.logprobs && top > 0) {
    f.fail("top_logprobs", "needs 'logprobs': true");
  }
  f.integer("n_probs", top, 0, kMaxTop);  // llama-server's name for both
  if (f.has("n_probs") && top > 0) r.logprobs = true;
  p.want_logprob = r.logprobs;
  p.num_logprobs = r.logprobs ? top : 0;
}

/// A last assistant message becomes the beginning of the answer.
void take_prefill(ChatRequest& r) {
  Json::Array& messages = r.input.messages.as_array();
  if (messages.size() <= 1) return;  // nothing that could be answered before it
  const Json& last = messages.back();
  const Json* calls = last.find("tool_calls");
  if (last.find("role")->as_string() != "assistant" || (calls != nullptr && calls->size() > 0)) {
    return;
  }
  r.input.prefill = last.find("content")->as_string();
  messages.pop_back();
}

}  // namespace

ChatRequest read_chat(Json body, const ServerState& state, bool allow_empty) {
  merge_extra_body(body);
  Fields f(body);
  ChatRequest r;
  r.id = random_id("chatcmpl-");
  const Json* messages = f.get("messages");
  if (messages == nullptr) throw bad_field("messages", "is missing");
  const bool empty = allow_empty && messages->is_array() && messages->size() == 0;
  r.input.messages = empty ? Json::array() : read_messages(*messages, state.model.chat);
  r.input.tools = read_tools(f, r.tool_choice);
  r.base = read_base_request(f, state);
  read_stream_options(f, state, r.options);
  if (f.ok() && f.has("stream_options") && !f.get("stream_options")->is_object()) {
    f.fail("stream_options", "expected an object");
  }
  f.integer("n", r.num_choices, 1, kMaxChoices);
  f.integer("id_slot", r.id_slot, -1, state.num_slots - 1);
  read_logprobs(f, r);
  f.boolean("parallel_tool_calls", r.tool_choice.parallel);
  r.reasoning_budget = state.defaults()->reasoning_budget.value_or(-1);
  f.integer("thinking_budget_tokens", r.reasoning_budget, -1);
  f.boolean("reasoning_control", r.reasoning_control);
  f.boolean("add_generation_prompt", r.input.add_generation_prompt);
  r.reasoning_format = read_reasoning_format(f, state.generation);
  if (state.generation.skip_chat_parsing) r.reasoning_format = ReasoningFormat::None;
  read_template_variables(f, state, r.input.extra_context);
  std::string ignored;
  f.string("model", ignored);
  f.string("user", ignored);
  if (!f.ok()) throw f.error();
  if (state.generation.prefill_assistant && r.input.add_generation_prompt) take_prefill(r);
  return r;
}

namespace {

/// The format of calls, their markers as text, and the grammar that holds them to their schemas.
void prepare_calls(ChatRequest& r, const ChatFormat& format, const text::Tokenizer& tokenizer) {
  if (r.input.tools.size() == 0) return;
  r.tool_format = text::detect_tool_format(format.template_source);
  const std::vector<text::TokenId> markers = text::tool_marker_ids(r.tool_format, tokenizer);
  if (!markers.empty()) r.base.skip_special_text = false;
  const bool forced = r.tool_choice.mode == text::ToolChoice::Mode::Required;
  if (r.base.grammar) {
    if (forced) throw bad_field("tool_choice", "a forced call excludes a grammar of the answer");
    return;
  }
  r.base.grammar = text::tool_grammar(r.tool_format, r.input.tools, r.tool_choice).value();
  r.base.constraint.preserved = markers;
  if (forced && !r.base.grammar) {
    throw unsupported_field("tool_choice",
                            "calls cannot be forced in the format of this model's template");
  }
}

}  // namespace

void render(ChatRequest& r, const ChatFormat& format, const text::Tokenizer& tokenizer) {
  r.prompt = render_chat(format, tokenizer, r.input).value();
  if (r.prompt.ids.empty()) throw bad_field("messages", "the prompt has no tokens");
  if (format.template_source.empty()) {
    for (const std::string& stop : generic_stop_strings()) r.base.stop_strings.push_back(stop);
    return;
  }
  const ChatOutput output(r.reasoning_format, format.template_source, r.prompt.text, false);
  if (r.reasoning_budget == 0 && output.inside()) {
    r.prompt.text += output.closing();
    r.prompt.ids = tokenizer.encode(r.prompt.text, {.add_special_tokens = false});
  }
  r.base.skip_special_text = !output.needs_special_text();
  prepare_calls(r, format, tokenizer);
  if (r.base.grammar) {
    r.base.constraint.after = text::reasoning_end(format.template_source, r.prompt.text);
  }
  r.base.continues_text = !r.input.prefill.empty();
}

GenerationPlan make_plan(const ChatRequest& r) {
  GenerationPlan plan;
  plan.stream = r.options.stream;
  plan.ping = r.options.ping;
  plan.id_slot = r.id_slot;
  for (int32_t i = 0; i < r.num_choices; ++i) {
    engine::Request one = r.base;
    one.prompt = r.prompt.ids;
    if (one.sampling.seed) *one.sampling.seed += static_cast<uint64_t>(i);
    plan.requests.push_back(std::move(one));
  }
  return plan;
}

ChatOutput make_output(const ChatRequest& r, const ChatFormat& format,
                       const GenerationOptions& options) {
  const bool plain = format.template_source.empty() || options.skip_chat_parsing;
  ChatOutput output(r.reasoning_format, format.template_source, r.prompt.text, plain);
  output.set_budget(r.reasoning_budget);
  if (!plain && r.input.tools.size() > 0) output.expect_calls(r.tool_format, r.input.tools);
  return output;
}

}  // namespace mlxcel::serve::wire
