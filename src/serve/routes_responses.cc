// POST /v1/responses and the stored responses.
#include <fmt/core.h>

#include <mutex>
#include <unordered_map>

#include "serve/route_groups.h"
#include "serve/timed_store.h"
#include "serve/wire/responses.h"

namespace mlxcel::serve {
namespace {

struct StoredTurn {
  int key_id = -1;
  Json response;  // null for a conversation
  Json messages;
};

/// What the handlers of these routes share.
struct Stores {
  explicit Stores(const GenerationOptions& options)
      : responses(options.responses), conversations(options.conversations) {}
  TimedStore<StoredTurn> responses, conversations;

  std::mutex mutex;  // guards running
  std::unordered_map<std::string, std::weak_ptr<Generation>> running;
};
using SharedStores = std::shared_ptr<Stores>;

int64_t size_of(const Json& json) { return static_cast<int64_t>(json.dump().size()); }

/// A conversation's place in its store: clients choose the ids, so keys must not share them.
std::string conversation_key(int key_id, const std::string& id) {
  return fmt::format("{}\n{}", key_id, id);
}

void keep(const SharedStores& stores, int key_id, const std::string& conversation, bool store,
          const Json& response, Json messages) {
  const std::string& id = response.find("id")->as_string();
  const int64_t bytes = size_of(response) + size_of(messages);
  auto turn = std::make_shared<StoredTurn>(StoredTurn{key_id, response, std::move(messages)});
  if (!conversation.empty()) {
    stores->conversations.put(conversation_key(key_id, conversation), turn, bytes);
  }
  if (store) stores->responses.put(id, std::move(turn), bytes);
  const std::lock_guard lock(stores->mutex);
  stores->running.erase(id);
}

wire::ResponsesRequest read_request(const Context& context, const SharedStores& stores,
                                    const HttpRequest& http) {
  const Json body = wire::parse_body(http.body).value();
  std::shared_ptr<const StoredTurn> turn;  // alive while it is read
  return wire::read_responses(
      body, context->state,
      [&](const std::string& id) -> const Json* {
        turn = stores->responses.get(id);
        return turn && turn->key_id == http.key_id ? &turn->messages : nullptr;
      },
      [&](const std::string& id) -> const Json* {
        turn = stores->conversations.get(conversation_key(http.key_id, id));
        return turn ? &turn->messages : nullptr;
      });
}

void answer_responses(const Context& context, const SharedStores& stores,
                      const std::shared_ptr<Exchange>& exchange) {
  const ServerState& state = context->state;
  wire::ResponsesRequest request = read_request(context, stores, exchange->request());
  wire::render(request.chat, state.model.chat, *state.model.tokenizer);
  const bool store = request.store && stores->responses.enabled();
  const std::string id = request.id;
  wire::StoreResponse done = [stores, key = exchange->request().key_id,
                              conversation = request.conversation_id,
                              store](const Json& response, Json messages) {
    keep(stores, key, conversation, store, response, std::move(messages));
  };
  auto answer = make_answer(context, exchange, request.chat.options.stream);
  GenerationPlan plan = wire::make_plan(request.chat);
  auto writer = wire::make_responses_writer(state, state.model.chat, answer, std::move(request),
                                            std::move(done));
  const auto generation =
      Generation::start(context, std::move(plan), std::move(writer), std::move(answer));
  if (!generation || !store) return;
  const std::lock_guard lock(stores->mutex);
  std::erase_if(stores->running, [](const auto& entry) { return entry.second.expired(); });
  stores->running.emplace(id, generation);
}

void count_input(const Context& context, const SharedStores& stores,
                 const std::shared_ptr<Exchange>& exchange) {
  wire::ResponsesRequest request = read_request(context, stores, exchange->request());
  wire::render(request.chat, context->state.model.chat, *context->state.model.tokenizer);
  exchange->reply(json_response(
      Json::object({{"object", "response.input_tokens"},
                    {"input_tokens", static_cast<int64_t>(request.chat.prompt.ids.size())}})));
}

std::shared_ptr<const StoredTurn> find(const SharedStores& stores,
                                       const std::shared_ptr<Exchange>& exchange) {
  if (!stores->responses.enabled()) {
    throw Error(Code::Unsupported,
                "responses are not stored: start the server with --responses-store-max-entries "
                "above 0");
  }
  const std::string* id = exchange->request().path_value("id");
  const auto turn = id != nullptr ? stores->responses.get(*id) : nullptr;
  if (!turn || turn->key_id != exchange->request().key_id) {
    throw Error(Code::NotFound, "no response of this id is stored");
  }
  return turn;
}

void get_stored(const Context&, const SharedStores& stores,
                const std::shared_ptr<Exchange>& exchange) {
  exchange->reply(json_response(find(stores, exchange)->response));
}

void delete_stored(const Context&, const SharedStores& stores,
                   const std::shared_ptr<Exchange>& exchange) {
  find(stores, exchange);
  const std::string& id = *exchange->request().path_value("id");
  stores->responses.erase(id);
  exchange->reply(
      json_response(Json::object({{"id", id}, {"object", "response.deleted"}, {"deleted", true}})));
}

void cancel(const Context&, const SharedStores& stores, const std::shared_ptr<Exchange>& exchange) {
  const std::string* id = exchange->request().path_value("id");
  std::shared_ptr<Generation> running;
  if (id != nullptr) {
    const std::lock_guard lock(stores->mutex);
    const auto it = stores->running.find(*id);
    if (it != stores->running.end()) running = it->second.lock();
  }
  if (!running) return get_stored({}, stores, exchange);  // complete, or unknown
  running->stop();
  exchange->reply(
      json_response(Json::object({{"id", *id}, {"object", "response"}, {"status", "cancelled"}})));
}

}  // namespace

void add_responses_routes(Router& router, const Context& context) {
  const auto stores = std::make_shared<Stores>(context->state.generation);
  const auto route = [&](auto answer) {
    return guarded(wire::Envelope::OpenAi,
                   [context, stores, answer](const std::shared_ptr<Exchange>& e) {
                     answer(context, stores, e);
                   });
  };
  add_aliases(router, "POST", {"/v1/responses", "/responses"}, route(answer_responses));
  add_aliases(router, "POST", {"/v1/responses/input_tokens", "/responses/input_tokens"},
              route(count_input));
  add_aliases(router, "GET", {"/v1/responses/{id}", "/responses/{id}"}, route(get_stored));
  add_aliases(router, "DELETE", {"/v1/responses/{id}", "/responses/{id}"}, route(delete_stored));
  add_aliases(router, "POST", {"/v1/responses/{id}/cancel", "/responses/{id}/cancel"},
              route(cancel));
}

}  // namespace mlxcel::serve
