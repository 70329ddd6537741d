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

Json template_context(const ChatFormat& format, Json messages, const ChatInput& input) {
  Json context = Json::object();
  context.set("messages", std::move(messages));
  if (input.tools.is_array() && input.tools.size() > 0) context.set("tools", input.tools);
  context.set("add_generation_prompt", input.add_generation_prompt);
  const auto token = [&](const char* name, const std::string& value) {
    if (!value.empty()) context.set(name, value);
  };
  token("bos_token", format.bos_token);
  token("eos_token", format.eos_token);
  token("unk_token", format.unk_token);
  token("pad_token", format.pad_token);
  for (const Json* extra : {&format.extra_context, &input.extra_context}) {
    if (!extra->is_object()) continue;
    for (const auto& [key, value] : extra->as_object()) context.set(key, value);
  }
  return context;
}

/// Parses the arguments of tool calls where they are JSON objects. True when there were any.
bool parse_arguments(Json& messages) {
  bool found = false;
  for (Json& message : messages.as_array()) {
    Json* calls = message.find("tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (Json& call : calls->as_array()) {
      Json* function = call.find("function");
      Json* arguments = function != nullptr ? function->find("arguments") : nullptr;
      if (arguments == nullptr || !arguments->is_string()) continue;
      if (arguments->as_string().find_first_not_of(" \t\r\n") == std::string::npos) {
        *arguments = Json::object();
        found = true;
        continue;
      }
      Result<Json> parsed = Json::parse(arguments->as_string());
      if (!parsed.ok() || !parsed.value().is_object()) continue;
      *arguments = std::move(parsed).value();
      found = true;
    }
  }
  return found;
}

}  // namespace

void compile_template(ChatFormat& format) {
  if (format.template_source.empty()) return;
  Result<text::ChatTemplate> compiled = text::ChatTemplate::parse(format.template_source);
  if (!compiled.ok()) throw compiled.error().within("chat template");
  format.compiled = std::move(compiled).value();
}

Result<RenderedPrompt> render_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                   const ChatInput& input) {
  Result<Json> normal = normalize_messages(input.messages);
  if (!normal.ok()) return normal.error();
  RenderedPrompt prompt;
  if (format.template_source.empty()) {
    prompt.text = render_generic(normal.value(), input.add_generation_prompt) + input.prefill;
    prompt.ids = tokenizer.encode(prompt.text);
    return prompt;
  }
  std::optional<text::ChatTemplate> compiled = format.compiled;
  if (!compiled) {
    Result<text::ChatTemplate> parsed = text::ChatTemplate::parse(format.template_source);
    if (!parsed.ok()) return parsed.error().within("chat template");
    compiled = std::move(parsed).value();
  }
  Json messages = normal.value();
  const bool with_objects = parse_arguments(messages);
  Result<std::string> text = compiled->render(template_context(format, std::move(messages), input));
  if (!text.ok() && with_objects) {
    text = compiled->render(template_context(format, std::move(normal).value(), input));
  }
  if (!text.ok()) return text.error().within("chat template");
  prompt.text = std::move(text).value() + input.prefill;
  prompt.ids = tokenizer.encode(prompt.text, {.add_special_tokens = false});
  return prompt;
}

Result<RenderedPrompt> render_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                   const Json& messages, const Json& tools,
                                   bool add_generation_prompt) {
  ChatInput input;
  input.messages = messages;
  input.tools = tools;
  input.add_generation_prompt = add_generation_prompt;
  return render_chat(format, tokenizer, input);
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
