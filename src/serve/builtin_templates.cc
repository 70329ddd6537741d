#include "serve/builtin_templates.h"

#include <fmt/core.h>

namespace mlxcel::serve {
namespace {

/// A format in which every message stands between a begin and an end, by role.
struct Turns {
  std::string_view name;
  std::string_view system, user, assistant;  // what a turn begins with
  std::string_view end;                      // what a turn of the system or the user ends with
  std::string_view assistant_end;
  std::string_view prompt;  // what the answer begins after
  bool trim = false;        // white space around a message is no part of it
};

constexpr Turns kTurns[] = {
    {"chatml", "<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n",
     "<|im_end|>\n", "<|im_end|>\n", "<|im_start|>assistant\n"},
    {"llama3", "<|start_header_id|>system<|end_header_id|>\n\n",
     "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", "<|eot_id|>",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", true},
    {"command-r", "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     "<|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     true},
    {"phi3", "<|system|>\n", "<|user|>\n", "<|assistant|>\n", "<|end|>\n", "<|end|>\n",
     "<|assistant|>\n"},
    {"phi4", "<|im_start|>system<|im_sep|>", "<|im_start|>user<|im_sep|>",
     "<|im_start|>assistant<|im_sep|>", "<|im_end|>", "<|im_end|>",
     "<|im_start|>assistant<|im_sep|>"},
    {"zephyr", "<|system|>\n", "<|user|>\n", "<|assistant|>\n", "<|endoftext|>\n",
     "<|endoftext|>\n", "<|assistant|>\n"},
    {"falcon3", "<|system|>\n", "<|user|>\n", "<|assistant|>\n", "\n", "\n", "<|assistant|>\n"},
    {"deepseek3", "", "<\xEF\xBD\x9CUser\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>",
     "",
     "<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     "<\xEF\xBD\x9C"
     "Assistant\xEF\xBD\x9C>"},
    {"granite", "<|start_of_role|>system<|end_of_role|>", "<|start_of_role|>user<|end_of_role|>",
     "<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n", "<|end_of_text|>\n",
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"vicuna", "", "USER: ", "ASSISTANT: ", "\n", "</s>\n", "ASSISTANT:"},
    {"mistral-v7", "[SYSTEM_PROMPT] ", "[INST] ", " ", "", "</s>", ""},
};

/// `text` as a Jinja string.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// The end of a turn by role: a few formats close the system's and the user's turns differently.
std::string end_of(const Turns& t, std::string_view role) {
  if (t.name == "mistral-v7" && role == "system") return "[/SYSTEM_PROMPT]";
  if (t.name == "mistral-v7" && role == "user") return "[/INST]";
  if (t.name == "vicuna" && role == "system") return "\n\n";
  return std::string(role == "assistant" ? t.assistant_end : t.end);
}

std::string source_of(const Turns& t) {
  const std::string content = t.trim ? "message['content'] | trim" : "message['content']";
  const auto turn = [&](std::string_view begin, std::string_view role) {
    return fmt::format("{{{{ {} + ({}) + {} }}}}", quoted(begin), content, quoted(end_of(t, role)));
  };
  return fmt::format(
      "{{% if bos_token is defined %}}{{{{ bos_token }}}}{{% endif %}}"
      "{{% for message in messages %}}"
      "{{% if message['role'] == 'system' or message['role'] == 'developer' %}}{}"
      "{{% elif message['role'] == 'assistant' %}}{}"
      "{{% else %}}{}{{% endif %}}{{% endfor %}}"
      "{{% if add_generation_prompt %}}{{{{ {} }}}}{{% endif %}}",
      turn(t.system, "system"), turn(t.assistant, "assistant"), turn(t.user, "user"),
      quoted(t.prompt));
}

// Gemma knows no system role: its text stands at the head of the next user turn.
constexpr std::string_view kGemma =
    "{% if bos_token is defined %}{{ bos_token }}{% endif %}"
    "{% set ns = namespace(system='') %}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' or message['role'] == 'developer' %}"
    "{% set ns.system = message['content'] | trim %}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ '<start_of_turn>model\\n' + (message['content'] | trim) + '<end_of_turn>\\n' }}"
    "{% else %}"
    "{{ '<start_of_turn>user\\n' }}"
    "{% if ns.system %}{{ ns.system + '\\n\\n' }}{% set ns.system = '' %}{% endif %}"
    "{{ (message['content'] | trim) + '<end_of_turn>\\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

}  // namespace

std::string builtin_template(std::string_view name) {
  if (name == "gemma") return std::string(kGemma);
  for (const Turns& turns : kTurns) {
    if (turns.name == name) return source_of(turns);
  }
  return {};
}

std::vector<std::string_view> builtin_template_names() {
  std::vector<std::string_view> names = {"gemma"};
  for (const Turns& turns : kTurns) names.push_back(turns.name);
  return names;
}

}  // namespace mlxcel::serve
