#include "serve/chat_session.h"

#include <fmt/core.h>

namespace mlxcel::serve {
namespace {

constexpr std::string_view kMessageForm = "expected an object with 'role' and 'content'";

Error bad_message(size_t index, std::string_view why) {
  return {Code::InvalidArgument, fmt::format("messages[{}]: {}", index, why)};
}

/// Content as one string where it is a string or a list of text parts (joined in order, nothing
/// between them); null stays null.
Result<Json> flatten_content(const Json& content, size_t index) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) {
    return bad_message(index, "'content' is neither a string nor a list of parts");
  }
  std::string text;
  for (const Json& part : content.as_array()) {
    const Json* type = part.find("type");
    const Json* value = part.find("text");
    if (type == nullptr || !type->is_string() || type->as_string() != "text" || value == nullptr ||
        !value->is_string()) {
      return bad_message(index, "only parts of type 'text' are supported");
    }
    text += value->as_string();
  }
  return Json(std::move(text));
}

Result<Json> normalize_messages(const Json& messages) {
  if (!messages.is_array()) return Error(Code::InvalidArgument, "'messages' is no list");
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Json message = messages.as_array()[i];
    const Json* role = message.find("role");
    if (!message.is_object() || role == nullptr || !role->is_string()) {
      return bad_message(i, kMessageForm);
    }
    if (const Json* content = message.find("content"); content != nullptr) {
      Result<Json> flat = flatten_content(*content, i);
      if (!flat.ok()) return flat.error();
      message.set("content", std::move(flat).value());
    }
    out.push_back(std::move(message));
  }
  return out;
}

std::string label(const std::string& role) {
  if (role == "user") return "User";
  if (role == "assistant") return "Assistant";
  if (role == "system" || role == "developer") return "System";
  return role;
}

/// One "Label: text" block a message, for checkpoints that bring no template.
std::string render_generic(const Json& messages, bool add_generation_prompt) {
  std::string out;
  for (const Json& message : messages.as_array()) {
    const Json* content = message.find("content");
    out += fmt::format("{}: {}\n\n", label(message.find("role")->as_string()),
                       content != nullptr && content->is_string() ? content->as_string() : "");
  }
  if (add_generation_prompt) out += "Assistant:";
  return out;
}

Json template_context(const ChatFormat& format, Json messages, const Json& tools,
                      bool add_generation_prompt) {
  Json context = Json::object();
  context.set("messages", std::move(messages));
  if (tools.is_array() && tools.size() > 0) context.set("tools", tools);
  context.set("add_generation_prompt", add_generation_prompt);
  const auto token = [&](const char* name, const std::string& value) {
    if (!value.empty()) context.set(name, value);
  };
  token("bos_token", format.bos_token);
  token("eos_token", format.eos_token);
  token("unk_token", format.unk_token);
  token("pad_token", format.pad_token);
  if (format.extra_context.is_object()) {
    for (const auto& [key, value] : format.extra_context.as_object()) context.set(key, value);
  }
  return context;
}

}  // namespace

Result<RenderedPrompt> render_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                   const Json& messages, const Json& tools,
                                   bool add_generation_prompt) {
  Result<Json> normal = normalize_messages(messages);
  if (!normal.ok()) return normal.error();
  RenderedPrompt prompt;
  if (format.template_source.empty()) {
    prompt.text = render_generic(normal.value(), add_generation_prompt);
    prompt.ids = tokenizer.encode(prompt.text);
    return prompt;
  }
  const Result<text::ChatTemplate> compiled = text::ChatTemplate::parse(format.template_source);
  if (!compiled.ok()) return compiled.error().within("chat template");
  Result<std::string> text = compiled.value().render(
      template_context(format, std::move(normal).value(), tools, add_generation_prompt));
  if (!text.ok()) return text.error().within("chat template");
  prompt.text = std::move(text).value();
  prompt.ids = tokenizer.encode(prompt.text, {.add_special_tokens = false});
  return prompt;
}

std::vector<text::TokenId> tokenize_raw(const text::Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<text::TokenId> ids = tokenizer.encode(prompt);
  const auto bos = tokenizer.bos_id();
  const bool written = bos && prompt.starts_with(tokenizer.token(*bos));
  if (written && ids.size() >= 2 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
  return ids;
}

const std::vector<std::string>& generic_stop_strings() {
  static const std::vector<std::string> kStops = {"\n\nUser:", "\nUser:"};
  return kStops;
}

}  // namespace mlxcel::serve
