// Registration of the groups of generation routes; add_generation_routes() calls them all.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "serve/generation.h"
#include "serve/http/exchange.h"

namespace mlxcel::serve {

using Context = std::shared_ptr<GenerationContext>;

/// A handler whose errors get the envelope of its protocol.
Handler guarded(wire::Envelope envelope, Handler handler);
/// Adds one handler below several paths.
void add_aliases(Router& router, const char* method, std::initializer_list<const char*> paths,
                 const Handler& handler);
/// The answer to an exchange, kept for resuming when the client asked for that.
std::shared_ptr<Answer> make_answer(const Context& context,
                                    const std::shared_ptr<Exchange>& exchange, bool stream);

void add_completion_routes(Router& router, const Context& context);  // native, OpenAI, infill
void add_chat_routes(Router& router, const Context& context);
void add_responses_routes(Router& router, const Context& context);
void add_messages_routes(Router& router, const Context& context);  // Anthropic
void add_stream_routes(Router& router, const Context& context);    // resuming
/// Serves several requests in one body; `router` outlives the handler.
void add_vertex_route(Router& router, const std::string& path);

}  // namespace mlxcel::serve
