// Objects of llama-server's own format that several protocols share.
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "serve/generation.h"
#include "text/tokenizer.h"

namespace mlxcel::serve::wire {

/// {"cache_n", "prompt_n", "prompt_ms", ..., "predicted_per_second"}.
Json timings_json(const Choice& choice);
/// {"total", "cache", "processed", "time_ms"}.
Json progress_json(const Choice& choice);
/// [{"id", "token", "bytes", "logprob", "top_logprobs": [...]}]; with `post_sampling` "prob" and
/// "top_probs". `with_ids` false: the form of OpenAI's chat.
Json probabilities_json(const text::Tokenizer& tokenizer, std::span<const TokenProbability> tokens,
                        bool post_sampling, bool with_ids);
/// The parameters of a request as GET /props and /completion show them.
Json settings_json(const engine::Request& request, bool stream);
/// A token's text; bytes of half a character become U+FFFD.
std::string token_text(const text::Tokenizer& tokenizer, text::TokenId id);
/// "stop", "length" for finish_reason.
std::string_view finish_reason(const Choice& choice);
/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"}; prompts that
/// several choices share count once.
Json usage_json(const std::vector<Choice>& choices, size_t choices_per_prompt);
/// Everything before the choices of a chunk, from a chunk whose last member is an empty "choices":
/// the same for a whole stream, so that a token costs only its own part.
std::string chunk_head(const Json& chunk);
/// A chunk with these choices, and with timings unless `timed` is null.
std::string chunk_text(const std::string& head, const Json& choices, const Choice* timed);
/// "b" and the version.
std::string system_fingerprint();
/// `prefix` and 24 random letters and digits.
std::string random_id(std::string_view prefix);
int64_t unix_seconds();

}  // namespace mlxcel::serve::wire
