// Finding a tokenizer in a model directory.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "text/tiktoken_tokenizer.h"
#include "text/tokenizer_json.h"

namespace mlxcel::text {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{512} << 20;

std::optional<Json> read_json(const std::string& path) {
  if (!file_exists(path)) return std::nullopt;
  JsonLimits limits;
  limits.allow_nonfinite = true;
  return with_context(path,
                      [&] { return Json::parse(read_file(path, kMaxFileBytes), limits).value(); });
}

// "bos_token" is a string or an object with "content".
std::optional<std::string> token_name(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  if (value != nullptr && value->is_object()) value = value->find("content");
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->as_string();
}

std::optional<bool> flag_of(const Json& config, std::string_view key) {
  const Json* value = config.find(key);
  if (value == nullptr || !value->is_bool()) return std::nullopt;
  return value->as_bool();
}

// Rank files know no special tokens; tokenizer_config.json lists them by id.
std::unique_ptr<PipelineTokenizer> load_tiktoken(const std::string& text,
                                                 const std::optional<Json>& config) {
  TiktokenOptions options = guess_tiktoken_options(count_tiktoken_entries(text));
  const Json* listed = config ? config->find("added_tokens_decoder") : nullptr;
  if (listed != nullptr && listed->is_object()) {
    options.special_tokens.clear();
    for (const auto& [id, token] : listed->as_object()) {
      const Json* content = token.find("content");
      const bool digits =
          !id.empty() && id.size() < 9 && id.find_first_not_of("0123456789") == std::string::npos;
      if (content == nullptr || !digits) continue;
      options.special_tokens.emplace_back(content->as_string(), std::stoi(id));
    }
    options.bos = token_name(*config, "bos_token").value_or(options.bos);
    options.eos = token_name(*config, "eos_token").value_or(options.eos);
  }
  return read_tiktoken(text, options);
}

std::unique_ptr<PipelineTokenizer> load_file(const std::string& dir,
                                             const std::optional<Json>& config) {
  const auto in_file = [](const std::string& path, auto&& read) {
    return with_context(path, [&] { return read(read_file(path, kMaxFileBytes)); });
  };
  if (file_exists(dir + "/tokenizer.json")) {
    return in_file(dir + "/tokenizer.json",
                   [](const std::string& text) { return read_tokenizer_json(text); });
  }
  for (const char* name :
       {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "tiktoken.model"}) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (!file_exists(path)) continue;
    return in_file(path, [&](const std::string& bytes) {
      return looks_like_tiktoken(bytes) ? load_tiktoken(bytes, config) : read_sentencepiece(bytes);
    });
  }
  if (file_exists(dir + "/tekken.json")) {
    return in_file(dir + "/tekken.json", [](const std::string& text) { return read_tekken(text); });
  }
  std::vector<std::string> rank_files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    if (entry.path().extension() == ".tiktoken") rank_files.push_back(entry.path().string());
  }
  std::sort(rank_files.begin(), rank_files.end());
  if (!rank_files.empty()) {
    return in_file(rank_files.front(),
                   [&](const std::string& text) { return load_tiktoken(text, config); });
  }
  throw Error(Code::NotFound,
              fmt::format("{}: no tokenizer here (looked for tokenizer.json, tokenizer.model, "
                          "spiece.model, sentencepiece.bpe.model, tiktoken.model, tekken.json and "
                          "*.tiktoken)",
                          dir));
}

// The Llama family's classes build the special tokens around a text from these two flags, whatever
// the file says.
void apply_flags(const Json& config, bool sentencepiece, TokenizerParts& parts) {
  const Json* name = config.find("tokenizer_class");
  const std::string kind = name != nullptr && name->is_string() ? name->as_string() : "";
  const bool follows = sentencepiece || kind.starts_with("Llama") ||
                       kind.starts_with("CodeLlama") || kind.starts_with("Gemma") ||
                       kind.starts_with("Cohere");
  const auto add_bos = flag_of(config, "add_bos_token"), add_eos = flag_of(config, "add_eos_token");
  if (!follows || (!add_bos && !add_eos)) return;
  const auto has = [&](std::optional<TokenId> id) {
    return id && std::find(parts.layout.begin(), parts.layout.end(), *id) != parts.layout.end();
  };
  const bool bos = add_bos.value_or(has(parts.bos)), eos = add_eos.value_or(has(parts.eos));
  parts.layout = {kSequencePlace};
  if (bos && parts.bos) parts.layout.insert(parts.layout.begin(), *parts.bos);
  if (eos && parts.eos) parts.layout.push_back(*parts.eos);
}

std::unique_ptr<PipelineTokenizer> load(const std::string& dir) {
  const auto config = read_json(dir + "/tokenizer_config.json");
  auto tokenizer = load_file(dir, config);
  TokenizerParts& parts = tokenizer->parts();
  const auto specials = read_json(dir + "/special_tokens_map.json");
  const auto adopt = [&](std::string_view key, std::optional<TokenId>& id) {
    for (const auto* source : {&config, &specials}) {
      if (!*source) continue;
      const auto name = token_name(**source, key);
      const auto found = name ? tokenizer->id_of(*name) : std::nullopt;
      if (!found) continue;
      id = found;
      return;
    }
  };
  adopt("bos_token", parts.bos);
  adopt("eos_token", parts.eos);
  if (config) apply_flags(*config, !file_exists(dir + "/tokenizer.json"), parts);
  return tokenizer;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& model_dir) {
  try {
    return std::unique_ptr<Tokenizer>(load(model_dir));
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace mlxcel::text
