// The parts of reading tokenizer.json (github.com/huggingface/tokenizers).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer_pipeline.h"

namespace mlxcel::text {

/// The model member: its big tables read, its small settings as JSON.
struct ModelJson {
  Json settings;                                    // everything but vocab and merges
  std::shared_ptr<Vocab> vocab;                     // of an object, or of pairs in order
  std::vector<double> scores;                       // of pairs
  bool scored = false;                              // vocab was a list of pairs
  std::vector<std::pair<TokenId, TokenId>> merges;  // ids of both parts
  std::vector<TokenId> merged;                      // id of the concatenation
  bool has_merges = false;
};

/// Reads the text of a model member.
ModelJson read_model_json(std::string_view text);

/// Adds a token to all tables; the normalizer must be set before.
void add_token(TokenizerParts& parts, AddedToken token);

/// The post_processor member as a layout of ids around the text. Throws InvalidArgument.
std::vector<TokenId> read_post_processor(const Json* json);

/// The whole file. Throws InvalidArgument, Unsupported or ResourceExhausted.
std::unique_ptr<PipelineTokenizer> read_tokenizer_json(std::string_view text);

}  // namespace mlxcel::text
