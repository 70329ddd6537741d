#include "apps/chat_format.h"

#include <fmt/core.h>

#include <array>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace mlxcel::apps {
namespace {

constexpr uint64_t kMaxTemplateBytes = uint64_t{4} << 20;

/// A template value of tokenizer_config.json or chat_template.json.
std::string template_text(const Json& value, const std::string& source) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.as_string();
  if (value.is_array()) {
    for (const Json& entry : value.as_array()) {
      const Json* name = entry.find("name");
      const Json* text = entry.find("template");
      if (name != nullptr && name->is_string() && name->as_string() == "default" &&
          text != nullptr && text->is_string()) {
        return text->as_string();
      }
    }
    if (value.size() == 0) return {};
    throw Error(
        Code::Corrupt,
        fmt::format("{}: 'chat_template' lists templates, none of them named 'default'", source));
  }
  throw Error(Code::Corrupt, fmt::format("{}: 'chat_template' is of type {}, expected a string",
                                         source, Json::kind_name(value.kind())));
}

std::string find_template(const io::Checkpoint& checkpoint) {
  const std::string jinja = checkpoint.path + "/chat_template.jinja";
  if (!checkpoint.gguf && file_exists(jinja)) return read_file(jinja, kMaxTemplateBytes);
  if (const Json* value = checkpoint.tokenizer_config.json().find("chat_template")) {
    if (std::string text = template_text(*value, checkpoint.tokenizer_config.source());
        !text.empty()) {
      return text;
    }
  }
  const std::string json = checkpoint.path + "/chat_template.json";
  if (!checkpoint.gguf && file_exists(json)) {
    const io::Config file = io::Config::load(json);
    if (const Json* value = file.json().find("chat_template")) return template_text(*value, json);
  }
  return {};
}

/// A token as tokenizer files write it: a string, or an object with "content".
std::string token_text(const io::Config& config, const char* key) {
  const Json* value = config.json().find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->as_string();
  const Json* content = value->find("content");
  return content != nullptr && content->is_string() ? content->as_string() : std::string();
}

}  // namespace

serve::ChatFormat read_chat_format(const io::Checkpoint& checkpoint,
                                   const text::Tokenizer& tokenizer) {
  serve::ChatFormat format;
  format.template_source = find_template(checkpoint);
  io::Config map;
  const std::string map_path = checkpoint.path + "/special_tokens_map.json";
  if (!checkpoint.gguf && file_exists(map_path)) map = io::Config::load(map_path);
  const auto token = [&](const char* key) {
    std::string text = token_text(checkpoint.tokenizer_config, key);
    return text.empty() ? token_text(map, key) : text;
  };
  format.bos_token = token("bos_token");
  format.eos_token = token("eos_token");
  format.unk_token = token("unk_token");
  format.pad_token = token("pad_token");
  const auto from_id = [&](std::string& target, std::optional<text::TokenId> id) {
    if (target.empty() && id) target = std::string(tokenizer.token(*id));
  };
  from_id(format.bos_token, tokenizer.bos_id());
  from_id(format.eos_token, tokenizer.eos_id());
  return format;
}

}  // namespace mlxcel::apps
