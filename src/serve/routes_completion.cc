// POST /completion, /completions, /infill, /v1/completions.
#include "serve/route_groups.h"
#include "serve/wire/completion.h"
#include "serve/wire/infill.h"

namespace mlxcel::serve {
namespace {

void run_native(const Context& context, const std::shared_ptr<Exchange>& exchange,
                wire::CompletionRequest request) {
  auto answer = make_answer(context, exchange, request.options.stream);
  GenerationPlan plan = wire::make_plan(request);
  auto writer = wire::make_native_writer(context->state, answer, std::move(request));
  Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
}

void answer_native(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  run_native(context, exchange, wire::read_native_completion(body, context->state));
}

void answer_infill(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  run_native(context, exchange, wire::read_infill(body, context->state));
}

void answer_openai(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::CompletionRequest request = wire::read_openai_completion(body, context->state);
  if (const auto engine = context->engine.lock()) {
    wire::score_prompts(request, *engine);
  }
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
  add_aliases(router, "POST", {"/infill"}, route(answer_infill));
  add_aliases(router, "POST", {"/v1/completions"}, route(answer_openai));
}

}  // namespace mlxcel::serve
