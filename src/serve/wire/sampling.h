// The sampling parameters of a request, in every spelling that clients use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "serve/wire/fields.h"
#include "text/grammar/grammar_cache.h"
#include "text/tokenizer.h"

namespace mlxcel::serve::wire {

/// Overrides `params` with what the request says: temperature, top_k, ..., seed (-1 = random, else
/// taken modulo 2^32), ignore_eos, logit_bias, and `samplers`, which switches off what it leaves
/// out. Errors are kept in `fields`.
void read_sampling(Fields& fields, const text::Tokenizer& tokenizer,
                   engine::SamplingParams& params);

/// "logit_bias": pairs [[id | text, bias | false] ...] or an object {"id" | text: bias | false}.
/// A text biases each of its tokens; false forbids.
void read_logit_bias(Fields& fields, const text::Tokenizer& tokenizer,
                     engine::SamplingParams& params);

/// "stop": a string or a list; empty strings are dropped. At most 64 of 4096 bytes.
void read_stop(Fields& fields, std::string_view key, std::vector<std::string>& stop);

/// "max_tokens" and its other names: -1 = until the context is full. A cap of the server holds.
void read_max_tokens(Fields& fields, int32_t default_tokens, bool default_is_cap, int32_t& out);

/// "grammar", "json_schema" and "response_format": the grammar of the answer; `fallback` when the
/// request brings none, null for {"type": "text"} and when there is none either. What cannot be
/// enforced is an error that names the keyword.
std::shared_ptr<const text::Grammar> read_grammar(Fields& fields, text::GrammarCache& grammars,
                                                  std::shared_ptr<const text::Grammar> fallback);

/// Refuses what would extend an answer in ways that are not built in yet: lora. Null and
/// empty values pass.
void read_extensions(Fields& fields);

}  // namespace mlxcel::serve::wire
