#include <fmt/core.h>

#include <algorithm>

#include "serve/wire/anthropic.h"
#include "serve/wire/api_error.h"

namespace mlxcel::serve::wire {
namespace {

constexpr int32_t kDefaultMaxTokens = 4096;

const std::string& text_member(const Json& block, const char* key, std::string_view where) {
  const Json* value = block.find(key);
  if (value == nullptr || !value->is_string()) {
    throw bad_field(where, fmt::format("expected a string '{}'", key));
  }
  return value->as_string();
}

const std::string& block_type(const Json& block, std::string_view where) {
  if (!block.is_object()) throw bad_field(where, "expected blocks with a 'type'");
  return text_member(block, "type", where);
}

Error unknown_block(const std::string& type, std::string_view where) {
  if (type == "image") {
    return unsupported_field(where, "image input is not supported by this model");
  }
  return bad_field(where, fmt::format("blocks of type '{}' are not supported here",
                                      std::string_view(type).substr(0, 64)));
}

/// Text of a string or of text blocks, joined in order with nothing between them.
std::string text_of(const Json& content, std::string_view where) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) throw bad_field(where, "expected a string or a list of blocks");
  std::string out;
  for (const Json& block : content.as_array()) {
    const std::string& type = block_type(block, where);
    if (type != "text") throw unknown_block(type, where);
    out += text_member(block, "text", where);
  }
  return out;
}

/// One message; tool results become messages of their own, before the rest of the turn.
class MessageReader {
 public:
  explicit MessageReader(Json& out) : out_(out) {}

  void read(const Json& message, size_t index) {
    where_ = fmt::format("messages[{}]", index);
    const std::string& role = text_member(message, "role", where_);
    const Json* content = message.find("content");
    if (content == nullptr) throw bad_field(where_ + ".content", "is missing");
    if (role == "system") return add_system(text_of(*content, where_ + ".content"));
    if (role != "user" && role != "assistant") {
      throw bad_field(where_ + ".role", "expected user or assistant");
    }
    text_.clear();
    reasoning_.clear();
    calls_ = Json::array();
    bool has_text = content->is_string();
    if (has_text) {
      text_ = content->as_string();
    } else if (content->is_array()) {
      for (const Json& block : content->as_array()) has_text |= read_block(block, role);
    } else {
      throw bad_field(where_ + ".content", "expected a string or a list of blocks");
    }
    if (!has_text && role == "user") return;  // tool results alone
    Json turn = Json::object({{"role", role}, {"content", text_}});
    if (!reasoning_.empty()) turn.set("reasoning_content", reasoning_);
    if (calls_.size() > 0) turn.set("tool_calls", std::move(calls_));
    out_.push_back(std::move(turn));
  }

 private:
  /// True when the block is part of the turn's own message.
  bool read_block(const Json& block, const std::string& role) {
    const std::string where = where_ + ".content";
    const std::string& type = block_type(block, where);
    if (type == "text") {
      text_ += text_member(block, "text", where);
      return true;
    }
    if (type == "tool_result" && role == "user") {
      const Json* content = block.find("content");
      const std::string text =
          content == nullptr || content->is_null() ? "" : text_of(*content, where);
      out_.push_back(Json::object({{"role", "tool"},
                                   {"tool_call_id", text_member(block, "tool_use_id", where)},
                                   {"content", text}}));
      return false;
    }
    if (role != "assistant") throw unknown_block(type, where);
    if (type == "thinking") {
      reasoning_ += text_member(block, "thinking", where);
      return true;
    }
    if (type == "redacted_thinking") return true;  // nothing that could be read
    if (type != "tool_use") throw unknown_block(type, where);
    const Json* input = block.find("input");
    calls_.push_back(Json::object(
        {{"id", text_member(block, "id", where)},
         {"type", "function"},
         {"function", Json::object({{"name", text_member(block, "name", where)},
                                    {"arguments", input == nullptr ? Json::object() : *input}})}}));
    return true;
  }

  /// Later system messages go to the turn before them, the first ones to the head.
  void add_system(const std::string& text) {
    if (out_.size() == 0) {
      out_.push_back(Json::object({{"role", "system"}, {"content", text}}));
      return;
    }
    Json& last = out_.as_array().back();
    const std::string& role = last.find("role")->as_string();
    if (role == "user" || role == "system") {
      last.set("content", last.find("content")->as_string() + "\n\n" + text);
    } else {
      out_.push_back(Json::object({{"role", "user"}, {"content", text}}));
    }
  }

  Json& out_;
  std::string where_, text_, reasoning_;
  Json calls_;
};

Json read_anthropic_tools(Fields& f) {
  Json out = Json::array();
  const Json* tools = f.array("tools");
  if (tools == nullptr) return out;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = tools->as_array()[i];
    const std::string where = fmt::format("tools[{}]", i);
    const Json* type = tool.find("type");
    if (type != nullptr && type->is_string() && type->as_string() != "custom") {
      throw bad_field(where + ".type", "only custom tools are supported");
    }
    Json function = Json::object({{"name", text_member(tool, "name", where)}});
    if (const Json* description = tool.find("description"))
      function.set("description", *description);
    if (const Json* schema = tool.find("input_schema")) function.set("parameters", *schema);
    out.push_back(Json::object({{"type", "function"}, {"function", std::move(function)}}));
  }
  return out;
}

void read_tool_choice(Fields& f, Json& chat) {
  const Json* choice = f.object("tool_choice");
  if (choice == nullptr) return;
  const std::string& type = text_member(*choice, "type", "tool_choice");
  if (type == "auto" || type == "none") {
    chat.set("tool_choice", type);
  } else if (type == "any") {
    chat.set("tool_choice", "required");
  } else if (type == "tool") {
    Json function = Json::object({{"name", text_member(*choice, "name", "tool_choice")}});
    chat.set("tool_choice",
             Json::object({{"type", "function"}, {"function", std::move(function)}}));
  } else {
    f.fail("tool_choice.type", "expected auto, any, tool or none");
  }
  if (const Json* single = choice->find("disable_parallel_tool_use"); single != nullptr) {
    if (!single->is_bool())
      return f.fail("tool_choice.disable_parallel_tool_use", "expected a boolean");
    chat.set("parallel_tool_calls", !single->as_bool());
  }
}

void read_thinking(Fields& f, Json& chat) {
  const Json* thinking = f.object("thinking");
  if (thinking == nullptr) return;
  Fields inner(*thinking, "thinking.");
  std::string type;
  inner.choice("type", type, {"enabled", "disabled", "adaptive"});
  int32_t budget = 0;
  inner.integer("budget_tokens", budget, 0);
  if (!inner.ok()) return f.fail(inner.error());
  if (type.empty()) return f.fail("thinking.type", "is missing");
  if (type == "enabled" && inner.has("budget_tokens")) {
    chat.set("thinking_budget_tokens", budget);
  }
  Json kwargs = Json::object();
  if (const Json* given = f.get("chat_template_kwargs")) kwargs = *given;
  if (kwargs.is_object() && kwargs.find("enable_thinking") == nullptr) {
    kwargs.set("enable_thinking", type != "disabled");
  }
  chat.set("chat_template_kwargs", std::move(kwargs));
}

/// Members with a form of their own; all others are read as in a chat request.
constexpr std::string_view kTranslated[] = {
    "messages", "system", "tools",        "tool_choice",   "thinking",          "stop_sequences",
    "metadata", "stop",   "service_tier", "output_config", "context_management"};

}  // namespace

ChatRequest read_anthropic(const Json& body, const ServerState& state) {
  Fields f(body);
  Json messages = Json::array();
  if (const Json* system = f.get("system")) {
    if (const std::string text = text_of(*system, "system"); !text.empty()) {
      messages.push_back(Json::object({{"role", "system"}, {"content", text}}));
    }
  }
  const Json* list = f.array("messages");
  if (!f.ok()) throw f.error();
  if (list == nullptr) throw bad_field("messages", "is missing");
  MessageReader reader(messages);
  for (size_t i = 0; i < list->size(); ++i) reader.read(list->as_array()[i], i);
  Json chat = Json::object();
  for (const auto& [key, value] : body.as_object()) {
    if (std::ranges::find(kTranslated, std::string_view(key)) == std::end(kTranslated)) {
      chat.set(key, value);
    }
  }
  if (!f.has("max_tokens")) chat.set("max_tokens", kDefaultMaxTokens);
  chat.set("messages", std::move(messages));
  if (Json tools = read_anthropic_tools(f); tools.size() > 0) chat.set("tools", std::move(tools));
  read_tool_choice(f, chat);
  read_thinking(f, chat);
  std::vector<std::string> stops;
  f.strings("stop_sequences", stops);
  Json stop = Json::array();
  for (std::string& s : stops) stop.push_back(std::move(s));
  chat.set("stop", std::move(stop));
  if (const Json* metadata = f.object("metadata"); metadata == nullptr && f.has("metadata")) {
    throw f.error();
  }
  if (!f.ok()) throw f.error();
  return read_chat(std::move(chat), state, true);
}

}  // namespace mlxcel::serve::wire
