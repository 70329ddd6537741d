#include "serve/routes_generation.h"

#include "serve/route_groups.h"

namespace mlxcel::serve {

Handler guarded(wire::Envelope envelope, Handler handler) {
  return [envelope, handler = std::move(handler)](const std::shared_ptr<Exchange>& exchange) {
    try {
      handler(exchange);
    } catch (const Error& e) {
      exchange->reply(wire::error_response(to_api_error(e), envelope));
    } catch (const std::exception& e) {
      exchange->reply(
          wire::error_response(to_api_error(Error(Code::Internal, e.what())), envelope));
    }
  };
}

void add_aliases(Router& router, const char* method, std::initializer_list<const char*> paths,
                 const Handler& handler) {
  for (const char* path : paths) router.add(method, path, handler);
}

std::shared_ptr<Answer> make_answer(const Context& context,
                                    const std::shared_ptr<Exchange>& exchange, bool stream) {
  const std::string* conversation = exchange->request().header("x-conversation-id");
  if (!stream || conversation == nullptr || conversation->empty()) {
    return std::make_shared<Answer>(exchange);
  }
  return std::make_shared<Answer>(exchange,
                                  context->streams.open(exchange->request().key_id, *conversation));
}

void add_generation_routes(Router& router, ServerState& state) {
  if (!state.grammars) {
    state.grammars = std::make_shared<text::GrammarCache>(state.model.tokenizer);
  }
  if (!state.slots) state.slots = std::make_shared<SlotTable>(state.num_slots);
  compile_template(state.model.chat);
  const auto context = std::make_shared<GenerationContext>(state);
  add_completion_routes(router, context);
  add_chat_routes(router, context);
  add_responses_routes(router, context);
  add_messages_routes(router, context);
  add_stream_routes(router, context);
  if (!state.generation.vertex_predict_path.empty()) {
    add_vertex_route(router, state.generation.vertex_predict_path);
  }
}

}  // namespace mlxcel::serve
