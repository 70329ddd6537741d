// generate and run with a prompt: one request, printed while it is made.
#include <fmt/core.h>

#include <cstdio>

#include "apps/commands.h"
#include "apps/interrupt.h"
#include "apps/session.h"

namespace mlxcel::apps {
namespace {

constexpr int kInterrupted = 130;

int answer_once(Session& session, const GenerateArguments& arguments, PromptStyle style,
                const engine::SamplingParams& sampling) {
  const PreparedPrompt prompt = session.prepare(user_message(*arguments.prompt), style);
  if (prompt.generic) print_base_model_note(session.model().name);
  session.check_memory(static_cast<int64_t>(prompt.rendered.ids.size()));
  session.start(/*prefix_cache=*/false);
  const InterruptScope interruptible;
  const TurnResult result =
      session.turn(session.request(prompt, sampling, /*cache_scope=*/""), prompt);
  fmt::print("{}\n\n", result.interrupted ? "\n[interrupted]" : "");
  fmt::print("{}", arguments.profile ? profile_block(result) : summary_line(result) + "\n");
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace

int generate(const GenerateArguments& arguments) {
  Session session(arguments);
  if (!arguments.prompt) return chat(session, arguments);
  return answer_once(session, arguments,
                     arguments.no_chat_template ? PromptStyle::Raw : PromptStyle::Completion,
                     session.completion_sampling());
}

int run(const RunArguments& arguments) {
  // Timings and the memory check belong to the generate flow.
  if (arguments.prompt && (arguments.profile || arguments.estimate_memory)) {
    return generate(arguments);
  }
  Session session(arguments);
  if (!arguments.prompt) return chat(session, arguments);
  return answer_once(session, arguments,
                     arguments.no_chat_template ? PromptStyle::Raw : PromptStyle::Chat,
                     session.chat_sampling());
}

}  // namespace mlxcel::apps
