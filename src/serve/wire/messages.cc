// The conversation and the tools of a chat request.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "serve/wire/api_error.h"
#include "serve/wire/chat.h"
#include "serve/wire/native_json.h"

namespace mlxcel::serve::wire {
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

Error bad_message(size_t index, std::string_view field, std::string_view message) {
  return bad_field(fmt::format("messages[{}]{}", index, field), message);
}

std::string part_text(const Json& part, size_t index) {
  const Json* type = part.find("type");
  const Json* text = part.find("text");
  if (!part.is_object() || type == nullptr || !type->is_string()) {
    throw bad_message(index, ".content", "expected parts with a 'type'");
  }
  const std::string& kind = type->as_string();
  if (kind == "text" || kind == "input_text" || kind == "output_text" || kind == "refusal") {
    if (kind == "refusal") text = part.find("refusal");
    if (text == nullptr || !text->is_string()) {
      throw bad_message(index, ".content", fmt::format("a part of type '{}' without text", kind));
    }
    return text->as_string();
  }
  for (const auto& [prefix, what] : {std::pair{"image", "image"}, std::pair{"input_image", "image"},
                                     std::pair{"input_audio", "audio"}, std::pair{"video", "video"},
                                     std::pair{"input_video", "video"}}) {
    if (kind.starts_with(prefix)) {
      throw unsupported_field(fmt::format("messages[{}].content", index),
                              fmt::format("{} input is not supported by this model", what));
    }
  }
  throw bad_message(index, ".content",
                    fmt::format("unsupported content part type '{}'", kind.substr(0, 64)));
}

/// Text of a string or of parts in order, with nothing between them.
std::string content_text(const Json& content, size_t index) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) {
    throw bad_message(index, ".content", "expected a string or a list of parts");
  }
  std::string text;
  for (const Json& part : content.as_array()) text += part_text(part, index);
  return text;
}

/// One tool call of the history; arguments stay text, for the template to decide.
Json read_call(const Json& call, size_t index) {
  const Json* function = call.find("function");
  const Json* name = function != nullptr ? function->find("name") : nullptr;
  if (name == nullptr || !name->is_string()) {
    throw bad_message(index, ".tool_calls", "expected calls with 'function.name'");
  }
  Json out = call;
  Json& inner = *out.find("function");
  const Json* arguments = inner.find("arguments");
  if (arguments == nullptr || arguments->is_null()) {
    inner.set("arguments", "{}");
  } else if (!arguments->is_string() && !arguments->is_object()) {
    throw bad_message(index, ".tool_calls", "'arguments' is neither a string nor an object");
  }
  if (out.find("type") == nullptr) out.set("type", "function");
  return out;
}

Json read_message(const Json& source, size_t index, const ChatFormat& format) {
  const Json* role = source.find("role");
  if (!source.is_object()) throw bad_message(index, "", "expected an object");
  if (role == nullptr || !role->is_string() ||
      std::ranges::find(kRoles, std::string_view(role->as_string())) == kRoles.end()) {
    throw bad_message(index, ".role",
                      "expected system, developer, user, assistant, tool or function");
  }
  Json message = source;
  // A template that does not know the newer name gets the older one.
  if (role->as_string() == "developer" &&
      format.template_source.find("developer") == std::string::npos) {
    message.set("role", "system");
  }
  const bool assistant = role->as_string() == "assistant";
  const Json* content = source.find("content");
  const Json* calls = source.find("tool_calls");
  if (calls != nullptr && calls->is_null()) calls = nullptr;
  if (calls != nullptr && !calls->is_array()) {
    throw bad_message(index, ".tool_calls", "expected a list");
  }
  const Json* reasoning = source.find("reasoning_content");
  if (reasoning == nullptr) reasoning = source.find("reasoning");
  if (reasoning != nullptr && reasoning->is_null()) reasoning = nullptr;
  if (reasoning != nullptr && !reasoning->is_string()) {
    throw bad_message(index, ".reasoning_content", "expected a string");
  }
  if (content == nullptr || content->is_null()) {
    if (!(assistant && (calls != nullptr || reasoning != nullptr))) {
      throw bad_message(index, ".content", "is missing");
    }
    message.set("content", "");
  } else {
    message.set("content", content_text(*content, index));
  }
  if (reasoning != nullptr) message.set("reasoning_content", *reasoning);
  if (calls != nullptr) {
    Json list = Json::array();
    for (const Json& call : calls->as_array()) list.push_back(read_call(call, index));
    message.set("tool_calls", std::move(list));
  }
  return message;
}

bool has_input(const Json& message) {
  const Json* calls = message.find("tool_calls");
  const Json* reasoning = message.find("reasoning_content");
  return message.find("role")->as_string() == "tool" || (calls != nullptr && calls->size() > 0) ||
         (reasoning != nullptr && reasoning->is_string() && !is_blank(reasoning->as_string())) ||
         !is_blank(message.find("content")->as_string());
}

Json read_tool(const Json& tool, size_t index) {
  const auto fail = [&](std::string_view message) {
    return bad_field(fmt::format("tools[{}]", index), message);
  };
  const Json* type = tool.find("type");
  if (!tool.is_object() ||
      (type != nullptr && !(type->is_string() && type->as_string() == "function"))) {
    throw fail("expected an object of type 'function'");
  }
  const Json* function = tool.find("function");
  const Json* name = function != nullptr ? function->find("name") : nullptr;
  if (name == nullptr || !name->is_string() || name->as_string().empty()) {
    throw fail("expected 'function.name'");
  }
  Json out = tool;
  if (type == nullptr) out.set("type", "function");
  Json& inner = *out.find("function");
  const Json* description = inner.find("description");
  if (description == nullptr || description->is_null()) {
    inner.set("description", "");
  } else if (!description->is_string()) {
    throw fail("'function.description' must be a string");
  }
  const Json* parameters = inner.find("parameters");
  if (parameters == nullptr || parameters->is_null() ||
      (parameters->is_object() && parameters->size() == 0)) {
    inner.set("parameters", Json::object({{"type", "object"}, {"properties", Json::object()}}));
  } else if (!parameters->is_object()) {
    throw fail("'function.parameters' must be a JSON schema object");
  }
  return out;
}

/// The tool that a "tool_choice" object names.
std::string chosen_name(Fields& f, const Json& choice) {
  const Json* type = choice.find("type");
  const Json* function = choice.find("function");
  const Json* name = function != nullptr ? function->find("name") : choice.find("name");
  if (type == nullptr || !type->is_string() || type->as_string() != "function" || name == nullptr ||
      !name->is_string() || name->as_string().empty()) {
    f.fail("tool_choice", "expected {\"type\": \"function\", \"function\": {\"name\"}}");
    return {};
  }
  return name->as_string();
}

}  // namespace

Json read_messages(const Json& messages, const ChatFormat& format) {
  if (!messages.is_array() || messages.size() == 0) {
    throw bad_field("messages", "expected a non-empty list of messages");
  }
  Json out = Json::array();
  bool input = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json message = read_message(messages.as_array()[i], i, format);
    input = input || has_input(message);
    out.push_back(std::move(message));
  }
  if (!input) throw bad_field("messages", "every message is blank");
  const auto is_assistant = [](const Json& m) {
    return m.find("role")->as_string() == "assistant";
  };
  const Json::Array& list = out.as_array();
  if (list.size() >= 2 && is_assistant(list.back()) && is_assistant(list[list.size() - 2])) {
    throw bad_field("messages", "two assistant messages at the end cannot be continued");
  }
  return out;
}

text::ToolCall with_id(text::ToolCall call, std::string_view prefix) {
  if (call.id.empty()) call.id = random_id(prefix);
  return call;
}

Json call_json(const text::ToolCall& call) {
  return Json::object(
      {{"id", call.id},
       {"type", "function"},
       {"function", Json::object({{"name", call.name}, {"arguments", call.arguments}})}});
}

Json read_tools(Fields& f, text::ToolChoice& chosen) {
  Json tools;
  if (const Json* list = f.array("tools"); list != nullptr) {
    tools = Json::array();
    for (size_t i = 0; i < list->size(); ++i) {
      tools.push_back(read_tool(list->as_array()[i], i));
    }
  }
  const Json* choice = f.get("tool_choice");
  if (!f.ok() || choice == nullptr) return tools;
  std::string mode = "named";
  std::string name;
  if (choice->is_object()) {
    name = chosen_name(f, *choice);
  } else {
    f.choice("tool_choice", mode, {"auto", "none", "required"});
  }
  if (!f.ok() || mode == "auto") return tools;
  if (mode == "none") return {};
  if (tools.size() == 0) {
    f.fail("tool_choice", "needs a non-empty list of tools");
    return {};
  }
  chosen.mode = text::ToolChoice::Mode::Required;
  chosen.name = name;
  if (name.empty()) return tools;
  std::erase_if(tools.as_array(), [&](const Json& t) {
    return t.find("function")->find("name")->as_string() != name;
  });
  if (tools.size() == 0) {
    f.fail("tool_choice", fmt::format("'{}' is not among the tools", name.substr(0, 64)));
  }
  return tools;
}

}  // namespace mlxcel::serve::wire
