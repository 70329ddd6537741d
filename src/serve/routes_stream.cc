// GET and DELETE /v1/stream, POST /v1/streams/lookup: streams that go on without their client.
#include <charconv>

#include "serve/route_groups.h"
#include "serve/wire/api_error.h"
#include "serve/wire/fields.h"

namespace mlxcel::serve {
namespace {

const std::string& conversation_of(const HttpRequest& request) {
  const std::string* id = request.query_value("conv_id");
  if (id == nullptr || id->empty()) throw wire::bad_field("conv_id", "is missing from the query");
  return *id;
}

void resume(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const std::string& id = conversation_of(request);
  uint64_t from = 0;
  if (const std::string* text = request.query_value("from")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), from);
    if (error != std::errc() || end != text->data() + text->size()) {
      throw wire::bad_field("from", "expected a byte offset");
    }
  }
  const auto session = context->streams.find(request.key_id, id);
  if (!session) throw Error(Code::NotFound, "no stream of this conversation is known");
  if (!session->follow(exchange, from)) {
    throw wire::bad_field("from", "these bytes of the stream are not available");
  }
}

void forget(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  context->streams.remove(request.key_id, conversation_of(request));
  HttpResponse response;
  response.status = 204;
  exchange->reply(std::move(response));
}

void look_up(const Context& context, const std::shared_ptr<Exchange>& exchange) {
  const Json body = wire::parse_body(exchange->request().body).value();
  wire::Fields f(body);
  std::vector<std::string> ids;
  if (!f.has("conversation_ids")) f.fail("conversation_ids", "is missing");
  f.strings("conversation_ids", ids);
  if (!f.ok()) throw f.error();
  exchange->reply(json_response(context->streams.lookup(exchange->request().key_id, ids)));
}

}  // namespace

void add_stream_routes(Router& router, const Context& context) {
  const auto route = [&](auto answer) {
    return guarded(wire::Envelope::OpenAi,
                   [context, answer](const std::shared_ptr<Exchange>& e) { answer(context, e); });
  };
  router.add("GET", "/v1/stream", route(resume));
  router.add("DELETE", "/v1/stream", route(forget));
  router.add("POST", "/v1/streams/lookup", route(look_up));
}

}  // namespace mlxcel::serve
