// Tokenizer and chat template as routes.
#include <fmt/core.h>

#include "base/utf8.h"
#include "serve/routes_admin.h"
#include "serve/wire/chat.h"
#include "serve/wire/error.h"

namespace mlxcel::serve {
namespace {

Json parse_body(const HttpRequest& request) {
  Json body = Json::parse(request.body.empty() ? "{}" : request.body).value();
  if (!body.is_object()) throw Error(Code::InvalidArgument, "the body must be a JSON object");
  return body;
}

bool flag(const Json& body, std::string_view name, bool otherwise) {
  const Json* value = body.find(name);
  if (value == nullptr || value->is_null()) return otherwise;
  if (!value->is_bool()) {
    throw Error(Code::InvalidArgument, fmt::format("\"{}\" must be true or false", name));
  }
  return value->as_bool();
}

text::TokenId token_id(const ServedModel& model, const Json& value, std::string_view name) {
  if (!value.is_int() || value.as_int() < 0 || value.as_int() >= model.vocab_size) {
    throw Error(Code::InvalidArgument,
                fmt::format("\"{}\" must hold token ids from 0 to {}", name, model.vocab_size - 1));
  }
  return static_cast<text::TokenId>(value.as_int());
}

/// Ids of a text, or of a list of texts and ids; only the first text gets the special tokens.
std::vector<text::TokenId> tokenize(const ServedModel& model, const Json& content,
                                    text::EncodeOptions options) {
  if (content.is_string()) return model.tokenizer->encode(content.as_string(), options);
  if (!content.is_array()) {
    throw Error(Code::InvalidArgument,
                "\"content\" must be a string or a list of strings and token ids");
  }
  std::vector<text::TokenId> ids;
  for (const Json& part : content.as_array()) {
    if (part.is_string()) {
      const auto more = model.tokenizer->encode(part.as_string(), options);
      ids.insert(ids.end(), more.begin(), more.end());
    } else {
      ids.push_back(token_id(model, part, "content"));
    }
    options.add_special_tokens = false;
  }
  return ids;
}

/// A token's bytes as text, or as a list of numbers when they are no whole characters.
Json piece(const ServedModel& model, text::TokenId id) {
  std::string_view bytes = model.tokenizer->bytes(id);
  if (bytes.empty()) bytes = model.tokenizer->token(id);
  if (utf8::is_valid(bytes)) return bytes;
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return list;
}

HttpResponse answer_tokenize(const ServedModel& model, const HttpRequest& request) {
  const Json body = parse_body(request);
  const text::EncodeOptions options{.add_special_tokens = flag(body, "add_special", false),
                                    .parse_special_tokens = flag(body, "parse_special", true)};
  const bool with_pieces = flag(body, "with_pieces", false);
  Json tokens = Json::array();
  if (const Json* content = body.find("content"); content != nullptr && !content->is_null()) {
    for (const text::TokenId id : tokenize(model, *content, options)) {
      if (with_pieces) {
        tokens.push_back(Json::object({{"id", id}, {"piece", piece(model, id)}}));
      } else {
        tokens.push_back(id);
      }
    }
  }
  return json_response(Json::object({{"tokens", std::move(tokens)}}));
}

HttpResponse answer_detokenize(const ServedModel& model, const HttpRequest& request) {
  const Json body = parse_body(request);
  std::vector<text::TokenId> ids;
  if (const Json* tokens = body.find("tokens"); tokens != nullptr && !tokens->is_null()) {
    if (!tokens->is_array()) {
      throw Error(Code::InvalidArgument, "\"tokens\" must be a list of token ids");
    }
    for (const Json& token : tokens->as_array()) ids.push_back(token_id(model, token, "tokens"));
  }
  return json_response(Json::object({{"content", model.tokenizer->decode(ids, false)}}));
}

HttpResponse answer_template(const ServerState& state, const HttpRequest& request) {
  wire::ChatRequest chat = wire::read_chat(parse_body(request), state);
  wire::render(chat, state.model.chat, *state.model.tokenizer);
  return json_response(Json::object({{"prompt", chat.prompt.text}}));
}

}  // namespace

void add_prompt_routes(Router& router, ServerState& state) {
  router.add("POST", "/tokenize", [&state](const std::shared_ptr<Exchange>& exchange) {
    exchange->reply(answer_tokenize(state.model, exchange->request()));
  });
  router.add("POST", "/apply-template", [&state](const std::shared_ptr<Exchange>& exchange) {
    exchange->reply(answer_template(state, exchange->request()));
  });
  router.add("POST", "/detokenize", [&state](const std::shared_ptr<Exchange>& exchange) {
    exchange->reply(answer_detokenize(state.model, exchange->request()));
  });
}

}  // namespace mlxcel::serve
