// POST /completion in llama-server's own format, and POST /v1/completions in OpenAI's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/generation.h"
#include "serve/wire/prompt.h"

namespace mlxcel::serve::wire {

/// What a protocol's request says beyond the engine's requests; shared by all protocols.
struct StreamOptions {
  bool stream = false, include_usage = false;
  bool timings_per_token = false, return_progress = false;
  std::chrono::milliseconds ping{0};
};
/// "stream", "stream_options", "timings_per_token", "return_progress", "sse_ping_interval".
void read_stream_options(Fields& fields, const ServerState& state, StreamOptions& out);

struct CompletionRequest {
  std::vector<Prompt> prompts;
  engine::Request base;  // everything but the prompt
  StreamOptions options;
  int32_t choices_per_prompt = 1;
  int32_t id_slot = -1, n_indent = 0;
  int64_t t_max_predict_ms = 0;
  bool return_tokens = false, echo = false;
  std::vector<std::string> response_fields;
  /// Of each prompt, when they are echoed with log-probabilities; the first token of each has none.
  std::vector<std::vector<TokenProbability>> prompt_probabilities;
};

/// Sampling, limits, stop strings and cache fields that all routes share.
engine::Request read_base_request(Fields& fields, const ServerState& state);

/// The native form. Throws the first error.
CompletionRequest read_native_completion(const Json& body, const ServerState& state);
/// The native fields except the prompt, which `prompts` replaces (infill).
CompletionRequest read_native_fields(Fields& fields, const ServerState& state,
                                     std::vector<Prompt> prompts);
CompletionRequest read_openai_completion(const Json& body, const ServerState& state);
/// Fills prompt_probabilities where the request asks for them. Runs the prompts; blocks.
void score_prompts(CompletionRequest& request, engine::Engine& engine);
/// Requests to the engine; prompt i's choices stand together, with seeds counted up.
GenerationPlan make_plan(const CompletionRequest& request);

std::unique_ptr<AnswerWriter> make_native_writer(const ServerState& state,
                                                 std::shared_ptr<Answer> answer,
                                                 CompletionRequest request);
std::unique_ptr<AnswerWriter> make_openai_completion_writer(const ServerState& state,
                                                            std::shared_ptr<Answer> answer,
                                                            CompletionRequest request);

}  // namespace mlxcel::serve::wire
