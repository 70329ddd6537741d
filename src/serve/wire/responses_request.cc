#include <fmt/core.h>

#include "serve/wire/api_error.h"
#include "serve/wire/native_json.h"
#include "serve/wire/responses.h"

namespace mlxcel::serve::wire {
namespace {

constexpr size_t kMaxMetadata = 16;

Error bad_item(size_t index, std::string_view message) {
  return bad_field(fmt::format("input[{}]", index), message);
}

const std::string& required_text(const Json& item, const char* key, size_t index) {
  const Json* value = item.find(key);
  if (value == nullptr || !value->is_string()) {
    throw bad_item(index, fmt::format("expected a string '{}'", key));
  }
  return value->as_string();
}

/// Builds chat messages from input items.
class ItemReader {
 public:
  explicit ItemReader(Json& messages) : messages_(messages) {}

  void read(const Json& item, size_t index) {
    if (!item.is_object()) throw bad_item(index, "expected an object");
    const Json* type = item.find("type");
    std::string kind;
    if (type != nullptr && type->is_string()) {
      kind = type->as_string();
    } else if (item.find("role") != nullptr) {
      kind = "message";
    }
    if (kind == "message") {
      read_message(item, index);
    } else if (kind == "function_call") {
      read_call(item, index);
    } else if (kind == "function_call_output") {
      read_output(item, index);
    } else if (kind == "reasoning") {
      read_reasoning(item);
    } else {
      throw bad_item(index, fmt::format("unknown type '{}'", kind.substr(0, 64)));
    }
  }

 private:
  static void refuse_files(const Json& content, size_t index) {
    if (!content.is_array()) return;
    for (const Json& part : content.as_array()) {
      const Json* type = part.find("type");
      if (type != nullptr && type->is_string() && type->as_string() == "input_file") {
        throw bad_item(index, "parts of type 'input_file' are not supported");
      }
    }
  }

  void read_message(const Json& item, size_t index) {
    const Json* content = item.find("content");
    if (content == nullptr) throw bad_item(index, "expected 'content'");
    refuse_files(*content, index);
    Json message =
        Json::object({{"role", required_text(item, "role", index)}, {"content", *content}});
    if (message.find("role")->as_string() == "assistant") {
      if (reasoning_.empty() && join_calls(*content)) return;
      attach_reasoning(message);
    }
    messages_.push_back(std::move(message));
  }

  /// Text behind calls belongs to their message. False when there is none.
  bool join_calls(const Json& content) {
    if (messages_.size() == 0) return false;
    Json& last = messages_.as_array().back();
    if (last.find("tool_calls") == nullptr) return false;
    Json parts = Json::array();
    for (const Json* source : {std::as_const(last).find("content"), &content}) {
      if (source->is_string()) {
        parts.push_back(Json::object({{"type", "text"}, {"text", *source}}));
      } else if (source->is_array()) {
        for (const Json& part : source->as_array()) parts.push_back(part);
      } else {
        return false;
      }
    }
    last.set("content", std::move(parts));
    return true;
  }

  void read_call(const Json& item, size_t index) {
    Json call = Json::object(
        {{"id", required_text(item, "call_id", index)},
         {"type", "function"},
         {"function", Json::object({{"name", required_text(item, "name", index)},
                                    {"arguments", required_text(item, "arguments", index)}})}});
    // Calls that follow one another, or the text of their turn, are one assistant message.
    if (messages_.size() > 0 && reasoning_.empty()) {
      Json& last = messages_.as_array().back();
      if (last.find("role")->as_string() == "assistant") {
        if (last.find("tool_calls") == nullptr) last.set("tool_calls", Json::array());
        last.find("tool_calls")->push_back(std::move(call));
        return;
      }
    }
    Json message = Json::object(
        {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({std::move(call)})}});
    attach_reasoning(message);
    messages_.push_back(std::move(message));
  }

  void read_output(const Json& item, size_t index) {
    const Json* output = item.find("output");
    if (output == nullptr || !(output->is_string() || output->is_array())) {
      throw bad_item(index, "expected 'output' as a string or a list of parts");
    }
    refuse_files(*output, index);
    messages_.push_back(Json::object({{"role", "tool"},
                                      {"tool_call_id", required_text(item, "call_id", index)},
                                      {"content", *output}}));
  }

  void read_reasoning(const Json& item) {
    const Json* content = item.find("content");  // items with a summary alone say nothing here
    if (content == nullptr || !content->is_array()) return;
    for (const Json& part : content->as_array()) {
      const Json* text = part.find("text");
      if (text != nullptr && text->is_string()) reasoning_ += text->as_string();
    }
  }

  void attach_reasoning(Json& message) {
    if (!reasoning_.empty()) message.set("reasoning_content", std::exchange(reasoning_, {}));
  }

  Json& messages_;
  std::string reasoning_;  // of the next assistant message
};

Json read_input(const Json& input) {
  Json messages = Json::array();
  if (input.is_string()) {
    messages.push_back(Json::object({{"role", "user"}, {"content", input}}));
    return messages;
  }
  if (!input.is_array()) throw bad_field("input", "expected a string or a list of items");
  ItemReader reader(messages);
  for (size_t i = 0; i < input.size(); ++i) reader.read(input.as_array()[i], i);
  return messages;
}

Json read_function_tools(Fields& f) {
  Json out = Json::array();
  const Json* tools = f.array("tools");
  if (tools == nullptr) return out;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = tools->as_array()[i];
    const Json* type = tool.find("type");
    if (type == nullptr || !type->is_string() || type->as_string() != "function") {
      throw bad_field(fmt::format("tools[{}].type", i), "only 'function' tools are supported");
    }
    Json function = Json::object();
    for (const auto& [key, value] : tool.as_object()) {
      if (key != "type") function.set(key, value);
    }
    out.push_back(Json::object({{"type", "function"}, {"function", std::move(function)}}));
  }
  return out;
}

/// text.format in the form of "response_format".
Json read_format(Fields& f) {
  const Json* text = f.object("text");
  const Json* format = text != nullptr ? text->find("format") : nullptr;
  if (format == nullptr || format->is_null()) return {};
  const Json* type = format->find("type");
  if (type == nullptr || !type->is_string()) throw bad_field("text.format", "expected a 'type'");
  if (type->as_string() != "json_schema") return Json::object({{"type", *type}});
  const Json* schema = format->find("schema");
  if (schema == nullptr || schema->is_null()) throw bad_field("text.format.schema", "is missing");
  return Json::object({{"type", "json_schema"}, {"json_schema", *format}});
}

void check_metadata(Fields& f) {
  const Json* metadata = f.object("metadata");
  if (metadata == nullptr) return;
  if (metadata->size() > kMaxMetadata) {
    f.fail("metadata",
           fmt::format("{} entries, at most {} are allowed", metadata->size(), kMaxMetadata));
  }
}

std::string read_conversation(Fields& f) {
  const Json* conversation = f.get("conversation");
  if (conversation == nullptr) return {};
  const Json* id = conversation->is_object() ? conversation->find("id") : conversation;
  if (id == nullptr || !id->is_string() || id->as_string().empty()) {
    throw bad_field("conversation", "expected an id or {\"id\"}");
  }
  return id->as_string();
}

void refuse_unsupported(Fields& f) {
  bool background = false;
  f.boolean("background", background);
  if (f.ok() && background) f.fail("background", "is not supported");
  std::string truncation = "disabled";
  f.choice("truncation", truncation, {"disabled"});
  int32_t calls = 0;
  f.integer("max_tool_calls", calls, 0);
}

/// Members that a chat request reads under the same name.
constexpr std::string_view kShared[] = {"temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "seed",
                                        "stream",
                                        "tool_choice",
                                        "parallel_tool_calls",
                                        "prompt_cache_key",
                                        "timings_per_token",
                                        "return_progress",
                                        "cache_prompt",
                                        "reasoning_format",
                                        "chat_template_kwargs",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "repeat_penalty",
                                        "logit_bias",
                                        "user",
                                        "model",
                                        "sse_ping_interval",
                                        "id_slot",
                                        "stop",
                                        "thinking_budget_tokens",
                                        "reasoning_control"};

/// Members of the request that the response repeats, with the API's defaults.
Json echoed_members(const Json& body) {
  const std::pair<const char*, Json> members[] = {
      {"instructions", Json()},
      {"max_output_tokens", Json()},
      {"max_tool_calls", Json()},
      {"metadata", Json::object()},
      {"parallel_tool_calls", true},
      {"previous_response_id", Json()},
      {"reasoning", Json::object({{"effort", Json()}, {"summary", Json()}})},
      {"service_tier", "default"},
      {"store", true},
      {"temperature", Json()},
      {"text", Json::object({{"format", Json::object({{"type", "text"}})}})},
      {"tool_choice", "auto"},
      {"tools", Json::array()},
      {"top_logprobs", 0},
      {"top_p", Json()},
      {"truncation", "disabled"},
      {"user", Json()},
      {"safety_identifier", Json()},
      {"prompt_cache_key", Json()},
      {"background", false}};
  Json out = Json::object();
  for (const auto& [key, value] : members) {
    const Json* given = body.find(key);
    out.set(key, given != nullptr && !given->is_null() ? *given : value);
  }
  return out;
}

}  // namespace

ResponsesRequest read_responses(const Json& body, const ServerState& state,
                                const FindHistory& find_response,
                                const FindHistory& find_conversation) {
  Fields f(body);
  ResponsesRequest r;
  r.id = random_id("resp_");
  refuse_unsupported(f);
  check_metadata(f);
  f.boolean("store", r.store);
  f.string("previous_response_id", r.previous_id);
  if (!f.ok()) throw f.error();
  r.conversation_id = read_conversation(f);
  if (!r.previous_id.empty() && !r.conversation_id.empty()) {
    throw bad_field("conversation", "cannot be combined with 'previous_response_id'");
  }
  if (!r.previous_id.empty()) {
    const Json* earlier = find_response(r.previous_id);
    if (earlier == nullptr) {
      throw Error(Code::NotFound, fmt::format("'previous_response_id': no stored response '{}'",
                                              r.previous_id.substr(0, 64)));
    }
    r.history = *earlier;
  } else if (!r.conversation_id.empty()) {
    if (const Json* earlier = find_conversation(r.conversation_id)) r.history = *earlier;
  }
  const Json* input = f.get("input");
  if (input == nullptr) throw bad_field("input", "is missing");
  Json turn = read_input(*input);
  for (Json& message : turn.as_array()) r.history.push_back(std::move(message));

  std::string instructions;
  f.string("instructions", instructions);
  Json messages = Json::array();
  if (!instructions.empty()) {
    messages.push_back(Json::object({{"role", "system"}, {"content", instructions}}));
  }
  for (const Json& message : r.history.as_array()) messages.push_back(message);
  Json chat = Json::object({{"messages", std::move(messages)}});
  for (const std::string_view key : kShared) {
    if (const Json* value = body.find(key)) chat.set(key, *value);
  }
  if (Json tools = read_function_tools(f); tools.size() > 0) chat.set("tools", std::move(tools));
  if (Json format = read_format(f); !format.is_null()) chat.set("response_format", format);
  int32_t max_tokens = -1;
  f.integer("max_output_tokens", max_tokens, 1);
  if (max_tokens > 0) chat.set("max_tokens", max_tokens);
  int32_t top = 0;
  f.integer("top_logprobs", top, 0, 20);
  if (top > 0) {
    chat.set("logprobs", true);
    chat.set("top_logprobs", top);
  }
  if (const Json* reasoning = f.object("reasoning")) chat.set("reasoning", *reasoning);
  if (!f.ok()) throw f.error();
  r.chat = read_chat(std::move(chat), state);
  r.echoed = echoed_members(body);
  return r;
}

}  // namespace mlxcel::serve::wire
