#include "text/tiktoken_tokenizer.h"

#include <fmt/core.h>

#include <charconv>
#include <unordered_set>

#include "text/rank_bpe.h"
#include "text/tokenizer_json_scan.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
constexpr std::string_view kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++)"
    R"([\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimiPattern =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
    R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kTekkenSpecials[] = {"<unk>",
                                                "<s>",
                                                "</s>",
                                                "[INST]",
                                                "[/INST]",
                                                "[AVAILABLE_TOOLS]",
                                                "[/AVAILABLE_TOOLS]",
                                                "[TOOL_RESULTS]",
                                                "[/TOOL_RESULTS]",
                                                "[TOOL_CALLS]",
                                                "[IMG]",
                                                "<pad>",
                                                "[IMG_BREAK]",
                                                "[IMG_END]",
                                                "[PREFIX]",
                                                "[MIDDLE]",
                                                "[SUFFIX]",
                                                "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]",
                                                "[TOOL_CONTENT]"};

// Splits off the line that `text` begins with.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::unique_ptr<PipelineTokenizer> assemble(std::shared_ptr<Vocab> vocab,
                                            const TiktokenOptions& options) {
  TokenizerParts parts;
  std::unordered_set<std::string_view> names;
  for (const auto& [content, id] : options.special_tokens) {
    if (id < 0 || id > kMaxTokenId) {
      throw Error(Code::InvalidArgument,
                  fmt::format("the special token \"{}\" has the id {}", content, id));
    }
    if (content.empty() || !names.insert(content).second) continue;
    AddedToken token;
    token.content = content;
    token.id = id;
    token.special = true;
    parts.added.add(token, content);
    parts.added_tokens.push_back(token);
    if (content == options.bos) parts.bos = id;
    if (content == options.eos) parts.eos = id;
  }
  if (parts.bos && options.add_bos) parts.layout = {*parts.bos, kSequencePlace};
  parts.model = std::make_unique<RankBpe>(std::move(vocab));
  parts.ill_formed = IllFormed::Pass;
  parts.pre_tokenizers.stages.push_back(
      make_split(compile_regex(options.pattern), SplitBehavior::Removed, true));
  parts.decoders.add(make_bytes_decoder());
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

TiktokenOptions llama3_options() {
  TiktokenOptions out{std::string(kLlama3Pattern), {}, "<|begin_of_text|>", "<|eot_id|>", true};
  constexpr std::string_view kNames[] = {"<|begin_of_text|>",
                                         "<|end_of_text|>",
                                         "<|reserved_special_token_0|>",
                                         "<|reserved_special_token_1|>",
                                         "<|finetune_right_pad_id|>",
                                         "<|step_id|>",
                                         "<|start_header_id|>",
                                         "<|end_header_id|>",
                                         "<|eom_id|>",
                                         "<|eot_id|>",
                                         "<|python_tag|>"};
  TokenId id = 128000;
  for (const std::string_view name : kNames) out.special_tokens.emplace_back(name, id++);
  for (int i = 2; id < 128256; ++i) {
    out.special_tokens.emplace_back(fmt::format("<|reserved_special_token_{}|>", i), id++);
  }
  return out;
}

TiktokenOptions qwen_options() {
  TiktokenOptions out{std::string(kQwenPattern), {}, "", "<|im_end|>", false};
  TokenId id = 151643;
  for (const std::string_view name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    out.special_tokens.emplace_back(name, id++);
  }
  for (int i = 0; i < 205; ++i) {
    out.special_tokens.emplace_back(fmt::format("<|extra_{}|>", i), id++);
  }
  return out;
}

}  // namespace

std::string decode_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    uint32_t v = 0;
    if (c >= 'A' && c <= 'Z') {
      v = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      v = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      v = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      v = 62;
    } else if (c == '/') {
      v = 63;
    } else if (c == '=') {
      break;
    } else {
      throw Error(Code::InvalidArgument, "base64 text has another character");
    }
    bits = bits << 6 | v;
    if ((count += 6) >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

bool looks_like_tiktoken(std::string_view text) {
  const std::string_view line = take_line(text);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) return false;
  return line.find_first_not_of("0123456789", space + 1) == std::string_view::npos &&
         line.substr(0, space).find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
             std::string_view::npos;
}

size_t count_tiktoken_entries(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) count += take_line(text).empty() ? 0 : 1;
  return count;
}

TiktokenOptions guess_tiktoken_options(size_t entries) {
  switch (entries) {
    case 50256:
      return {std::string(kGpt2Pattern), {{"<|endoftext|>", 50256}}, "", "<|endoftext|>", false};
    case 100256:
      return {std::string(kCl100kPattern),
              {{"<|endoftext|>", 100257},
               {"<|fim_prefix|>", 100258},
               {"<|fim_middle|>", 100259},
               {"<|fim_suffix|>", 100260},
               {"<|endofprompt|>", 100276}},
              "",
              "<|endoftext|>",
              false};
    case 199998:
      return {std::string(kO200kPattern),
              {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}},
              "",
              "<|endoftext|>",
              false};
    case 128000:
      return llama3_options();
    case 151643:
      return qwen_options();
    case 163584:
      return {std::string(kKimiPattern),
              {{"[BOS]", 163584}, {"[EOS]", 163585}, {"<|im_end|>", 163586}},
              "[BOS]",
              "[EOS]",
              false};
    default:
      throw Error(
          Code::Unsupported,
          fmt::format("a rank file of {} entries belongs to no known model; a tokenizer.json "
                      "beside it can take its place",
                      entries));
  }
}

std::unique_ptr<PipelineTokenizer> read_tiktoken(std::string_view text,
                                                 const TiktokenOptions& options) {
  auto vocab = std::make_shared<Vocab>();
  vocab->reserve(text.size() / 16);
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    TokenId rank = -1;
    if (space != std::string_view::npos) {
      const char* end = line.data() + line.size();
      const auto [stop, error] = std::from_chars(line.data() + space + 1, end, rank);
      if (error != std::errc() || stop != end) rank = -1;
    }
    if (rank < 0) {
      throw Error(Code::InvalidArgument,
                  fmt::format("line {} is not base64, a space and a rank", number));
    }
    with_context(fmt::format("line {}", number),
                 [&] { vocab->add(rank, decode_base64(line.substr(0, space))); });
  }
  return assemble(std::move(vocab), options);
}

namespace {

TiktokenOptions tekken_options(const Json& config, const Json& specials, TokenId special_count) {
  const Json* pattern = config.find("pattern");
  if (pattern == nullptr) throw Error(Code::InvalidArgument, "config: \"pattern\" is missing");
  TiktokenOptions options{pattern->as_string(), {}, "<s>", "</s>", true};
  if (specials.is_array()) {
    for (const Json& token : specials.as_array()) {
      const Json* name = token.find("token_str");
      const Json* rank = token.find("rank");
      if (name == nullptr || rank == nullptr || rank->as_int() < 0 ||
          rank->as_int() >= special_count) {
        throw Error(Code::InvalidArgument, "special_tokens: an entry lacks its text or rank");
      }
      options.special_tokens.emplace_back(name->as_string(), static_cast<TokenId>(rank->as_int()));
    }
  } else {
    TokenId id = 0;
    for (const std::string_view name : kTekkenSpecials) {
      options.special_tokens.emplace_back(name, id++);
    }
  }
  for (auto id = static_cast<TokenId>(options.special_tokens.size()); id < special_count; ++id) {
    options.special_tokens.emplace_back(fmt::format("<SPECIAL_{}>", id), id);
  }
  return options;
}

void read_tekken_vocab(std::string_view text, TokenId first, TokenId entries, Vocab& vocab) {
  vocab.reserve(static_cast<size_t>(std::max(entries, 0)));
  JsonCursor list(text);
  std::string buffer, bytes;
  list.array([&] {
    int64_t rank = -1;
    list.object([&](std::string_view key) {
      if (key == "rank") {
        rank = list.integer();
      } else if (key == "token_bytes") {
        bytes = decode_base64(list.string(buffer));
      } else {
        list.skip_value();
      }
    });
    if (rank < 0) list.fail("an entry has no rank");
    if (rank < entries) vocab.add(static_cast<TokenId>(rank) + first, bytes);
  });
  list.finish();
}

}  // namespace

std::unique_ptr<PipelineTokenizer> read_tekken(std::string_view json) {
  if (!unicode::is_valid(json)) {
    throw Error(Code::InvalidArgument, "tekken.json is not valid UTF-8");
  }
  Json config, specials;
  std::string_view vocab_text;
  JsonCursor cursor(json);
  cursor.object([&](std::string_view key) {
    const std::string name(key);
    const std::string_view value = cursor.skip_value();
    if (name == "config") config = Json::parse(value).value();
    if (name == "special_tokens") specials = Json::parse(value).value();
    if (name == "vocab") vocab_text = value;
  });
  cursor.finish();
  if (vocab_text.empty()) throw Error(Code::InvalidArgument, "\"vocab\" is missing");
  const auto setting = [&](std::string_view key) {
    const Json* value = config.find(key);
    const int64_t n = value != nullptr && value->is_int() ? value->as_int() : -1;
    if (n < 0 || n > kMaxTokenId / 2) {
      throw Error(Code::InvalidArgument, fmt::format("config: \"{}\" is missing or wrong", key));
    }
    return static_cast<TokenId>(n);
  };
  const TokenId special_count = setting("default_num_special_tokens");
  const TokenId entries = setting("default_vocab_size") - special_count;
  auto vocab = std::make_shared<Vocab>();
  with_context("vocab", [&] { read_tekken_vocab(vocab_text, special_count, entries, *vocab); });
  return assemble(std::move(vocab), tekken_options(config, specials, special_count));
}

namespace {

template <class Read>
Result<std::unique_ptr<Tokenizer>> guarded(std::string_view context, Read&& read) {
  try {
    return std::unique_ptr<Tokenizer>(with_context(context, read));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> parse_tiktoken(std::string_view text,
                                                  const TiktokenOptions& options) {
  return guarded("rank file", [&] { return read_tiktoken(text, options); });
}

Result<std::unique_ptr<Tokenizer>> parse_tekken(std::string_view json) {
  return guarded("tekken.json", [&] { return read_tekken(json); });
}

Result<TiktokenOptions> known_tiktoken_options(size_t entries) {
  try {
    return guess_tiktoken_options(entries);
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text
