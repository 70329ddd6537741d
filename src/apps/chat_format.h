// Where a checkpoint keeps its chat template and the special tokens that templates name.
#pragma once

#include "io/checkpoint.h"
#include "serve/chat_session.h"
#include "text/tokenizer.h"

namespace mlxcel::apps {

/// The template of a checkpoint: chat_template.jinja beside the weights, else tokenizer_config.json
/// (a string, or a list of named templates of which "default" is taken), else chat_template.json;
/// tokenizer.chat_template of a GGUF file. Token strings come from tokenizer_config.json,
/// special_tokens_map.json, else from the tokenizer. Throws Corrupt for a template of another type.
serve::ChatFormat read_chat_format(const io::Checkpoint& checkpoint,
                                   const text::Tokenizer& tokenizer);

}  // namespace mlxcel::apps
