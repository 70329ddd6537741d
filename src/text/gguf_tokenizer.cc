#include "text/gguf_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/bpe.h"
#include "text/sentencepiece_bpe.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace mlxcel::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// Names of tokens that end a turn or frame code; files often forget to call them control tokens.
constexpr std::array<std::string_view, 46> kControlNames{"<|eot_id|>",
                                                         "<|im_end|>",
                                                         "<|end|>",
                                                         "<|return|>",
                                                         "<|call|>",
                                                         "<|flush|>",
                                                         "<|calls|>",
                                                         "<end_of_turn>",
                                                         "<|endoftext|>",
                                                         "</s>",
                                                         "<|eom_id|>",
                                                         "<EOT>",
                                                         "_<EOT>",
                                                         "[EOT]",
                                                         "[EOS]",
                                                         "<|end_of_text|>",
                                                         "<end_of_utterance>",
                                                         "<eos>",
                                                         "<turn|>",
                                                         "<|tool_response>",
                                                         "<｜end▁of▁sentence｜>",
                                                         "[e~[",
                                                         "<|fim_prefix|>",
                                                         "<fim-prefix>",
                                                         "<fim_prefix>",
                                                         "<｜fim▁begin｜>",
                                                         "<PRE>",
                                                         "▁<PRE>",
                                                         "<|code_prefix|>",
                                                         "<|fim_suffix|>",
                                                         "<fim-suffix>",
                                                         "<fim_suffix>",
                                                         "<｜fim▁hole｜>",
                                                         "<SUF>",
                                                         "▁<SUF>",
                                                         "<|code_suffix|>",
                                                         "<|fim_middle|>",
                                                         "<fim-middle>",
                                                         "<fim_middle>",
                                                         "<｜fim▁end｜>",
                                                         "<MID>",
                                                         "▁<MID>",
                                                         "<|code_middle|>",
                                                         "<|fim_pad|>",
                                                         "<|fim_repo|>",
                                                         "<|file_sep|>"};

PieceType type_at(const GgufVocab& v, size_t i) {
  if (i >= v.token_types.size()) return PieceType::Normal;
  const int32_t type = v.token_types[i];
  return type >= 1 && type <= 6 ? static_cast<PieceType>(type) : PieceType::Normal;
}

struct Entries {
  std::shared_ptr<Vocab> vocab = std::make_shared<Vocab>();
  std::vector<PieceType> types;
};

Entries read_entries(const GgufVocab& v) {
  Entries out;
  if (v.tokens.empty()) throw Error(Code::InvalidArgument, "tokenizer.ggml.tokens is empty");
  if (v.tokens.size() > static_cast<size_t>(kMaxTokenId)) {
    throw Error(Code::ResourceExhausted,
                fmt::format("{} tokens are more than {}", v.tokens.size(), kMaxTokenId));
  }
  out.vocab->reserve(v.tokens.size());
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    std::string text(v.tokens[i]);
    if (text.empty()) text = fmt::format("[EMPTY_{}]", i);
    if (!unicode::is_valid(text)) text = utf8::repair(text);
    out.vocab->add(static_cast<TokenId>(i), text);
    PieceType type = type_at(v, i);
    if (std::find(kControlNames.begin(), kControlNames.end(), text) != kControlNames.end()) {
      type = PieceType::Control;
    }
    out.types.push_back(type);
  }
  return out;
}

void add_special_tokens(const Entries& entries, TokenizerParts& parts) {
  parts.added = AddedTokens(AddedTokens::Order::LongestFirst);
  for (TokenId id = 0; id < entries.vocab->size(); ++id) {
    const PieceType type = entries.types[static_cast<size_t>(id)];
    if (type != PieceType::Control && type != PieceType::Unknown &&
        type != PieceType::UserDefined) {
      continue;
    }
    AddedToken token;
    token.content = entries.vocab->text(id);
    token.id = id;
    token.special = type != PieceType::UserDefined;
    parts.added.add(token, token.content);
    parts.added_tokens.push_back(std::move(token));
  }
}

std::optional<TokenId> valid_id(const GgufVocab& v, int64_t id, int64_t fallback = -1) {
  if (id < 0 || id >= static_cast<int64_t>(v.tokens.size())) id = fallback;
  if (id < 0 || id >= static_cast<int64_t>(v.tokens.size())) return std::nullopt;
  return static_cast<TokenId>(id);
}

void set_layout(TokenizerParts& parts, std::optional<TokenId> front, std::optional<TokenId> back) {
  parts.layout.clear();
  if (front) parts.layout.push_back(*front);
  parts.layout.push_back(kSequencePlace);
  if (back) parts.layout.push_back(*back);
}

BpeMerges read_merges(const GgufVocab& v, const Vocab& vocab) {
  BpeMerges merges;
  merges.reserve(v.merges.size());
  std::string joined;
  for (size_t i = 0; i < v.merges.size(); ++i) {
    const std::string_view merge = v.merges[i];
    const size_t space = merge.find(' ', 1);  // a token may begin with a space
    if (space == std::string_view::npos) continue;
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    joined.assign(left);
    joined += right;
    const TokenId l = vocab.find(left), r = vocab.find(right), whole = vocab.find(joined);
    // A merge of or into nothing could not come out; the reference would write bytes.
    if (l < 0 || r < 0 || whole < 0) continue;
    if (merges.find(l, r) == nullptr) merges.add(l, r, {static_cast<uint32_t>(i), whole});
  }
  return merges;
}

// The SentencePiece-like form of spaces.
std::unique_ptr<Normalizer> space_normalizer(bool prefix) {
  Json::Array steps;
  if (prefix) {
    steps.push_back(Json::object({{"type", "Prepend"}, {"prepend", kSpaceMark}}));
  }
  steps.push_back(Json::object({{"type", "Replace"},
                                {"pattern", Json::object({{"String", " "}})},
                                {"content", kSpaceMark}}));
  const Json json = Json::object({{"type", "Sequence"}, {"normalizers", Json(std::move(steps))}});
  return make_normalizer(&json);
}

void add_space_decoders(TokenizerParts& parts, bool strip) {
  parts.decoders.add(make_replace_decoder(std::string(kSpaceMark), " "));
  parts.decoders.add(make_byte_fallback_decoder());
  parts.decoders.add(make_fuse_decoder());
  if (strip) parts.decoders.add(make_strip_decoder(U' ', 1, 0));
  parts.decoders.set_strips_leading_space(strip);
}

TokenizerParts make_gpt2(const GgufVocab& v) {
  TokenizerParts parts;
  const GgufPre pre = gguf_pre(v.model == "gemma4" ? "gemma4" : v.pre);
  Entries entries = read_entries(v);
  if (v.merges.empty()) throw Error(Code::InvalidArgument, "tokenizer.ggml.merges is missing");
  add_special_tokens(entries, parts);
  BpeOptions options;
  options.ignore_merges = pre.ignore_merges;
  options.byte_fallback = !pre.byte_level;
  auto bpe = std::make_unique<Bpe>(entries.vocab, read_merges(v, *entries.vocab), options);
  const bool raw_bytes = pre.byte_level && bpe->use_raw_bytes();
  if (raw_bytes) parts.ill_formed = IllFormed::Pass;
  parts.model = std::move(bpe);
  for (const std::string_view pattern : pre.patterns) {
    parts.pre_tokenizers.stages.push_back(
        make_split(compile_regex(pattern), SplitBehavior::Isolated, false));
  }
  if (pre.byte_level) {
    if (!raw_bytes) {
      parts.pre_tokenizers.stages.push_back(make_byte_level(false, false, true));
    }
    parts.decoders.add(make_byte_level_decoder());
  } else {
    parts.normalizer = space_normalizer(false);
    add_space_decoders(parts, false);
  }
  parts.bos = valid_id(v, v.bos, v.model == "gemma4" ? -1 : 11);
  parts.eos = valid_id(v, v.eos, v.model == "gemma4" ? -1 : 11);
  const bool add_bos = v.add_bos.value_or(pre.add_bos);
  set_layout(parts, add_bos ? parts.bos : std::nullopt,
             v.add_eos.value_or(false) ? parts.eos : std::nullopt);
  return parts;
}

TokenizerParts make_llama(const GgufVocab& v) {
  TokenizerParts parts;
  Entries entries = read_entries(v);
  add_special_tokens(entries, parts);
  SentencePieceBpeOptions options;
  options.types = entries.types;
  options.unk = valid_id(v, v.unk, 0).value_or(-1);
  options.byte_fallback = true;
  options.merge_all_types = true;
  parts.model = std::make_unique<SentencePieceBpe>(entries.vocab, v.scores, std::move(options));
  const bool prefix = v.add_space_prefix.value_or(true);
  parts.normalizer = space_normalizer(prefix);
  add_space_decoders(parts, prefix);
  parts.bos = valid_id(v, v.bos, 1);
  parts.eos = valid_id(v, v.eos, 2);
  set_layout(parts, v.add_bos.value_or(true) ? parts.bos : std::nullopt,
             v.add_eos.value_or(false) ? parts.eos : std::nullopt);
  return parts;
}

// WordPiece with the marks turned round: "x" begins a word as "▁x", "##x" goes on as "x".
TokenizerParts make_bert(const GgufVocab& v) {
  TokenizerParts parts;
  Entries entries = read_entries(v);
  add_special_tokens(entries, parts);
  const TokenId unk = valid_id(v, v.unk, 100).value_or(-1);
  parts.model = std::make_unique<MarkedWordPiece>(entries.vocab, std::string(kSpaceMark), unk);
  parts.normalizer = std::make_unique<LlamaCppBertText>();
  parts.pre_tokenizers.stages.push_back(
      make_char_split(&unicode::is_space, SplitBehavior::Removed));
  parts.pre_tokenizers.stages.push_back(
      make_char_split(&is_bert_word_of_its_own, SplitBehavior::Isolated));
  parts.decoders.add(make_replace_decoder(std::string(kSpaceMark), " "));
  parts.decoders.add(make_fuse_decoder());
  parts.decoders.add(make_strip_decoder(U' ', 1, 0));
  parts.decoders.set_strips_leading_space(true);
  parts.bos = valid_id(v, v.bos >= 0 ? v.bos : v.cls, 101);
  parts.eos = valid_id(v, v.eos);
  set_layout(parts, parts.bos, valid_id(v, v.sep, 102));
  return parts;
}

TokenizerParts make_t5(const GgufVocab& v) {
  TokenizerParts parts;
  Entries entries = read_entries(v);
  add_special_tokens(entries, parts);
  UnigramOptions options;
  options.unk = valid_id(v, v.unk, 2).value_or(-1);
  options.flavor = UnigramOptions::Flavor::LlamaCpp;
  options.types = entries.types;
  parts.normalizer = make_llama_cpp_unigram_normalizer(v, entries.types);
  parts.model = std::make_unique<Unigram>(
      entries.vocab, std::vector<double>(v.scores.begin(), v.scores.end()), std::move(options));
  const bool prefix = v.add_space_prefix.value_or(true);
  add_space_decoders(parts, prefix);
  parts.bos = valid_id(v, v.bos);
  parts.eos = valid_id(v, v.eos, 1);
  set_layout(parts, v.add_bos.value_or(false) ? parts.bos : std::nullopt,
             v.add_eos.value_or(true) ? parts.eos : std::nullopt);
  return parts;
}

TokenizerParts make_parts(const GgufVocab& v) {
  if (v.model == "bert") return make_bert(v);
  if (v.model == "t5") return make_t5(v);
  if (v.model == "gpt2" || v.model == "gemma4") return make_gpt2(v);
  if (v.model == "llama") return make_llama(v);
  throw Error(Code::Unsupported,
              fmt::format("unknown vocabulary kind \"{}\" (tokenizer.ggml.model)", v.model));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_gguf_tokenizer(const GgufVocab& vocab) {
  try {
    return std::unique_ptr<Tokenizer>(with_context(
        "GGUF vocabulary", [&] { return std::make_unique<PipelineTokenizer>(make_parts(vocab)); }));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text
