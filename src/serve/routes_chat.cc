// POST /v1/chat/completions and what belongs to it.
#include "serve/route_groups.h"
#include "serve/wire/chat.h"

namespace mlxcel::serve {
namespace {

void answer_chat(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const ServerState& state = context->state;
  wire::ChatRequest request =
      wire::read_chat(wire::parse_body(exchange->request().body).value(), state);
  wire::render(request, state.model.chat, *state.model.tokenizer);
  const bool controlled = request.reasoning_control;
  const std::string id = request.id;
  auto answer = make_answer(context, exchange, request.options.stream);
  GenerationPlan plan = wire::make_plan(request);
  auto writer = wire::make_chat_writer(state, state.model.chat, answer, std::move(request));
  const auto generation =
      Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
  if (generation && controlled) {
    context->controlled.add(exchange->request().key_id, id, generation);
  }
}

void control_chat(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::Fields f(body);
  std::string id;
  std::string action;
  f.string("id", id);
  if (f.ok() && id.empty()) f.fail("id", "is missing");
  if (f.ok() && !f.has("action")) f.fail("action", "is missing");
  f.choice("action", action, {"reasoning_end"});
  if (!f.ok()) throw f.error();
  const auto chat = context->controlled.find(exchange->request().key_id, id);
  Json out = Json::object({{"success", chat != nullptr && chat->end_reasoning()}});
  if (!out.find("success")->as_bool()) {
    out.set("message", "no running completion of this id was started with 'reasoning_control'");
  }
  exchange->reply(json_response(out));
}

void count_chat(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const ServerState& state = context->state;
  wire::ChatRequest request =
      wire::read_chat(wire::parse_body(exchange->request().body).value(), state);
  wire::render(request, state.model.chat, *state.model.tokenizer);
  exchange->reply(json_response(
      Json::object({{"object", "response.input_tokens"},
                    {"input_tokens", static_cast<int64_t>(request.prompt.ids.size())}})));
}

}  // namespace

void add_chat_routes(Router& router, const Context& context) {
  const auto route = [&](auto answer) {
    return guarded(wire::Envelope::OpenAi,
                   [context, answer](const std::shared_ptr<Exchange>& e) { answer(context, e); });
  };
  add_aliases(router, "POST", {"/v1/chat/completions", "/chat/completions"}, route(answer_chat));
  router.add("POST", "/v1/chat/completions/control", route(control_chat));
  add_aliases(router, "POST",
              {"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"},
              route(count_chat));
}

}  // namespace mlxcel::serve
