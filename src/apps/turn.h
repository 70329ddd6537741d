// One request through the engine, printed while it is generated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "apps/load_model.h"
#include "engine/engine.h"
#include "text/reasoning.h"

namespace mlxcel::apps {

struct TurnResult {
  engine::DoneEvent done;
  std::string content;  // what was printed as the answer
  bool interrupted = false;
  double seconds = 0;  // from submit to the last token
  double first_token_seconds = 0;
  std::vector<text::TokenId> ids;
};

struct TurnOptions {
  bool show_reasoning = false;
  std::unique_ptr<text::ReasoningParser> parser;  // null: everything is content
  double prepare_seconds = 0;  // spent on rendering and tokenizing, for the [TTFT] line
};

/// Submits and prints to stdout until the end. Ctrl-C (an InterruptScope must be alive) cancels the
/// request. Throws what the engine refuses or ends with.
TurnResult run_turn(engine::Engine& engine, engine::Request request, TurnOptions options);

/// "[Generated N tokens in S.SSs = R.RR tok/s]".
std::string summary_line(const TurnResult& result);
/// The lines of --profile.
std::string profile_block(const TurnResult& result);

}  // namespace mlxcel::apps
