// Anthropic's Messages API: translated to a chat request, answered with content blocks.
#pragma once

#include <memory>
#include <string>

#include "serve/generation.h"
#include "serve/wire/chat.h"

namespace mlxcel::serve::wire {

/// The heartbeat of a stream of this protocol.
inline constexpr std::string_view kAnthropicPing = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// Throws the first error, which names the field.
ChatRequest read_anthropic(const Json& body, const ServerState& state);

std::unique_ptr<AnswerWriter> make_anthropic_writer(const ServerState& state,
                                                    const ChatFormat& format,
                                                    std::shared_ptr<Answer> answer,
                                                    ChatRequest request);

}  // namespace mlxcel::serve::wire
