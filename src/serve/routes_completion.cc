// POST /completion, /completions, /v1/completions.
#include "serve/route_groups.h"
#include "serve/wire/completion.h"

namespace mlxcel::serve {
namespace {

void answer_native(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::CompletionRequest request = wire::read_native_completion(body, context->state);
  auto answer = make_answer(context, exchange, request.options.stream);
  GenerationPlan plan = wire::make_plan(request);
  auto writer = wire::make_native_writer(context->state, answer, std::move(request));
  Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
}

void answer_openai(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::CompletionRequest request = wire::read_openai_completion(body, context->state);
  auto answer = make_answer(context, exchange, request.options.stream);
  GenerationPlan plan = wire::make_plan(request);
  auto writer = wire::make_openai_completion_writer(context->state, answer, std::move(request));
  Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
}

}  // namespace

void add_completion_routes(Router& router, const Context& context) {
  const auto route = [&](auto answer) {
    return guarded(wire::Envelope::OpenAi,
                   [context, answer](const std::shared_ptr<Exchange>& e) { answer(context, e); });
  };
  add_aliases(router, "POST", {"/completion", "/completions"}, route(answer_native));
  add_aliases(router, "POST", {"/v1/completions"}, route(answer_openai));
}

}  // namespace mlxcel::serve
