#include "text/tokenizer_json.h"

#include <fmt/core.h>

#include "text/bpe.h"
#include "text/tokenizer_json_scan.h"
#include "text/unicode.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace mlxcel::text {
namespace {

std::string text_or(const Json& json, std::string_view key, std::string_view fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? std::string(fallback) : value->as_string();
}

bool flag_or(const Json& json, std::string_view key, bool fallback) {
  const Json* value = json.find(key);
  return value == nullptr || value->is_null() ? fallback : value->as_bool();
}

std::unique_ptr<Bpe> make_bpe(ModelJson model) {
  const Json& s = model.settings;
  if (!model.has_merges) throw Error(Code::InvalidArgument, "\"merges\" is missing");
  if (model.scored) throw Error(Code::InvalidArgument, "the vocabulary of BPE must be an object");
  BpeOptions options;
  options.has_unk = s.find("unk_token") != nullptr && !s.find("unk_token")->is_null();
  options.unk_token = text_or(s, "unk_token", "");
  options.continuing_subword_prefix = text_or(s, "continuing_subword_prefix", "");
  options.end_of_word_suffix = text_or(s, "end_of_word_suffix", "");
  options.fuse_unk = flag_or(s, "fuse_unk", false);
  options.byte_fallback = flag_or(s, "byte_fallback", false);
  options.ignore_merges = flag_or(s, "ignore_merges", false);
  BpeMerges merges;
  merges.reserve(model.merges.size());
  for (size_t i = 0; i < model.merges.size(); ++i) {
    merges.add(model.merges[i].first, model.merges[i].second,
               {static_cast<uint32_t>(i), model.merged[i]});
  }
  return std::make_unique<Bpe>(std::move(model.vocab), std::move(merges), std::move(options));
}

std::unique_ptr<TokenModel> make_wordpiece(ModelJson model, bool word_level) {
  const Json& s = model.settings;
  const std::string unk = text_or(s, "unk_token", word_level ? "<unk>" : "[UNK]");
  if (word_level) return std::make_unique<WordLevel>(std::move(model.vocab), unk);
  int64_t limit = 100;
  if (const Json* max = s.find("max_input_chars_per_word"); max != nullptr && !max->is_null()) {
    limit = max->as_int();
  }
  return std::make_unique<WordPiece>(std::move(model.vocab), unk,
                                     text_or(s, "continuing_subword_prefix", "##"), limit);
}

std::unique_ptr<TokenModel> make_unigram(ModelJson model) {
  if (!model.scored) {
    throw Error(Code::InvalidArgument, "the vocabulary of Unigram must be a list of pairs");
  }
  UnigramOptions options;
  if (const Json* unk = model.settings.find("unk_id"); unk != nullptr && !unk->is_null()) {
    const int64_t id = unk->as_int();
    if (id < 0 || id >= model.vocab->size()) {
      throw Error(Code::InvalidArgument, fmt::format("unk_id {} is outside the vocabulary of {}",
                                                     id, model.vocab->size()));
    }
    options.unk = static_cast<TokenId>(id);
  }
  options.byte_fallback = flag_or(model.settings, "byte_fallback", false);
  return std::make_unique<Unigram>(std::move(model.vocab), std::move(model.scores), options);
}

// Old files do not name the type.
std::string model_type(const ModelJson& model) {
  const std::string type = text_or(model.settings, "type", "");
  if (!type.empty()) return type;
  if (model.has_merges) return "BPE";
  if (model.scored) return "Unigram";
  return model.settings.find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

AddedToken read_added_token(const Json& json) {
  AddedToken token;
  const Json* content = json.find("content");
  if (content == nullptr) throw Error(Code::InvalidArgument, "\"content\" is missing");
  token.content = content->as_string();
  token.single_word = flag_or(json, "single_word", false);
  token.lstrip = flag_or(json, "lstrip", false);
  token.rstrip = flag_or(json, "rstrip", false);
  token.special = flag_or(json, "special", false);
  token.normalized = flag_or(json, "normalized", !token.special);
  return token;
}

// Ids are those of the vocabulary where it has the content, else the next free ones; the reference
// only warns when the file says otherwise.
void read_added_tokens(const Json* json, TokenizerParts& parts) {
  if (json == nullptr || json->is_null()) return;
  const Vocab& vocab = parts.model->vocab();
  auto next_id = static_cast<TokenId>(vocab.count());
  Vocab seen;
  for (const Json& entry : json->as_array()) {
    AddedToken token = read_added_token(entry);
    if (token.content.empty()) continue;
    token.id = seen.find(token.content);
    if (token.id < 0) token.id = vocab.find(token.content);
    if (token.id < 0) token.id = next_id++;
    seen.add(token.id, token.content);
    add_token(parts, std::move(token));
  }
}

}  // namespace

void add_token(TokenizerParts& parts, AddedToken token) {
  if (!token.normalized) {
    parts.added.add(token, token.content);
  } else if (!parts.normalizer) {
    parts.added_normalized.add(token, token.content);
  } else {
    NormalizedText text{token.content, true};
    parts.normalizer->apply(text);
    parts.added_normalized.add(token, text.text);
    if (text.text != token.content) parts.decode_texts.emplace_back(token.id, text.text);
  }
  parts.added_tokens.push_back(std::move(token));
}

std::unique_ptr<PipelineTokenizer> read_tokenizer_json(std::string_view text) {
  if (!unicode::is_valid(text)) {
    throw Error(Code::InvalidArgument, "tokenizer.json is not valid UTF-8");
  }
  std::string rest = "{";
  std::string_view model_text;
  JsonCursor cursor(text);
  cursor.object([&](std::string_view key) {
    if (key == "model") {
      model_text = cursor.skip_value();
      return;
    }
    if (rest.size() > 1) rest += ',';
    append_json_string(rest, key);
    rest += ':';
    rest += cursor.skip_value();
  });
  cursor.finish();
  rest += '}';
  const Json json = Json::parse(rest).value();
  if (model_text.empty()) throw Error(Code::InvalidArgument, "\"model\" is missing");

  TokenizerParts parts;
  ModelJson model = with_context("model", [&] { return read_model_json(model_text); });
  const std::string type = model_type(model);
  bool raw_bytes = false;
  with_context("model", [&] {
    if (type == "BPE") {
      auto bpe = make_bpe(std::move(model));
      const PreTokenizers probe = make_pre_tokenizers(json.find("pre_tokenizer"), true);
      raw_bytes = probe.maps_bytes && bpe->use_raw_bytes();
      parts.model = std::move(bpe);
    } else if (type == "WordPiece" || type == "WordLevel") {
      parts.model = make_wordpiece(std::move(model), type == "WordLevel");
    } else if (type == "Unigram") {
      parts.model = make_unigram(std::move(model));
    } else {
      throw Error(Code::Unsupported, fmt::format("unknown tokenizer model \"{}\"", type));
    }
  });
  parts.pre_tokenizers = make_pre_tokenizers(json.find("pre_tokenizer"), raw_bytes);
  if (raw_bytes) parts.ill_formed = IllFormed::Pass;
  parts.normalizer = make_normalizer(json.find("normalizer"));
  parts.layout = read_post_processor(json.find("post_processor"));
  parts.decoders = Decoders::from_json(json.find("decoder"));
  with_context("added_tokens", [&] { read_added_tokens(json.find("added_tokens"), parts); });
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> parse_tokenizer_json(std::string_view json) {
  try {
    return std::unique_ptr<Tokenizer>(
        with_context("tokenizer.json", [&] { return read_tokenizer_json(json); }));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text
