// OpenAI's Responses API: translated to a chat request, answered with items and typed events.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/generation.h"
#include "serve/wire/chat.h"

namespace mlxcel::serve::wire {

struct ResponsesRequest {
  ChatRequest chat;
  std::string id;  // "resp_..."
  std::string previous_id, conversation_id;
  bool store = true;
  Json history = Json::array();  // messages of this and earlier turns, without instructions
  Json echoed = Json::object();  // request members that the answer repeats
};

/// Where an earlier turn's messages come from; null when unknown.
using FindHistory = std::function<const Json*(const std::string& id)>;

/// Throws the first error, which names the field.
ResponsesRequest read_responses(const Json& body, const ServerState& state,
                                const FindHistory& find_response,
                                const FindHistory& find_conversation);

/// Called once with the finished object and the messages of the conversation so far.
using StoreResponse = std::function<void(const Json& response, Json messages)>;
std::unique_ptr<AnswerWriter> make_responses_writer(const ServerState& state,
                                                    const ChatFormat& format,
                                                    std::shared_ptr<Answer> answer,
                                                    ResponsesRequest request, StoreResponse store);

}  // namespace mlxcel::serve::wire
