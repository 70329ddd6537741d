// POST /v1/messages and /v1/messages/count_tokens.
#include "serve/route_groups.h"
#include "serve/wire/anthropic.h"

namespace mlxcel::serve {
namespace {

wire::ChatRequest read_request(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::ChatRequest request = wire::read_anthropic(body, context->state);
  wire::render(request, context->state.model.chat, *context->state.model.tokenizer);
  return request;
}

void answer_messages(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  wire::ChatRequest request = read_request(context, exchange);
  request.num_choices = 1;
  auto answer = make_answer(context, exchange, request.options.stream);
  GenerationPlan plan = wire::make_plan(request);
  plan.heartbeat = wire::kAnthropicPing;
  auto writer = wire::make_anthropic_writer(context->state, context->state.model.chat, answer,
                                            std::move(request));
  Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
}

void count_tokens(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const wire::ChatRequest request = read_request(context, exchange);
  exchange->reply(json_response(
      Json::object({{"input_tokens", static_cast<int64_t>(request.prompt.ids.size())}})));
}

}  // namespace

void add_messages_routes(Router& router, const Context& context) {
  const auto route = [&](auto answer) {
    return guarded(wire::Envelope::Anthropic,
                   [context, answer](const std::shared_ptr<Exchange>& e) { answer(context, e); });
  };
  router.add("POST", "/v1/messages", route(answer_messages));
  router.add("POST", "/v1/messages/count_tokens", route(count_tokens));
}

}  // namespace mlxcel::serve
