// Finding a tokenizer in a model directory.
#include <fmt/core.h>

#include <optional>

#include "base/file.h"
#include "text/tokenizer_json.h"

namespace mlxcel::text {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{512} << 20;

// "bos_token" is a string or an object with "content".
std::optional<TokenId> named_token(const Tokenizer& tokenizer, const Json& config,
                                   std::string_view key) {
  const Json* value = config.find(key);
  if (value != nullptr && value->is_object()) value = value->find("content");
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return tokenizer.id_of(value->as_string());
}

std::unique_ptr<PipelineTokenizer> load(const std::string& dir) {
  const std::string json_path = dir + "/tokenizer.json";
  if (!file_exists(json_path)) {
    throw Error(Code::NotFound,
                fmt::format("{}: no tokenizer here (looked for tokenizer.json)", dir));
  }
  auto tokenizer = with_context(
      json_path, [&] { return read_tokenizer_json(read_file(json_path, kMaxFileBytes)); });
  const std::string config_path = dir + "/tokenizer_config.json";
  if (file_exists(config_path)) {
    with_context(config_path, [&] {
      const Json config = Json::parse(read_file(config_path, kMaxFileBytes)).value();
      tokenizer->parts().bos = named_token(*tokenizer, config, "bos_token");
      tokenizer->parts().eos = named_token(*tokenizer, config, "eos_token");
    });
  }
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
