#include "text/tool_scan.h"

#include <algorithm>
#include <string>

#include "text/tool_cursor.h"
#include "text/tool_values.h"

namespace mlxcel::text::tools {

namespace {

std::string_view without_line_ends(std::string_view v) {
  if (v.starts_with('\n')) v.remove_prefix(1);
  if (v.ends_with('\n')) v.remove_suffix(1);
  return v;
}
std::string_view blank_trimmed(std::string_view v) {
  v.remove_prefix(skip_space(v, 0));
  while (!v.empty() && skip_space(v.substr(v.size() - 1), 0) == 1) v.remove_suffix(1);
  return v;
}

// <function=f><parameter=p>value</parameter></function>, behind "<function=".
void qwen_function(Cursor& c, const Json& tools) {
  const std::string name(blank_trimmed(c.until(">")));
  Json arguments = Json::object();
  while (c.ok()) {
    c.space();
    if (c.take("</function>")) break;
    c.expect("<parameter=");
    const std::string key(blank_trimmed(c.until(">")));
    // The value may hold the end marker itself; the real one is followed by markup.
    std::string value;
    while (c.ok()) {
      value += c.until("</parameter>");
      if (!c.ok()) break;
      const std::string_view rest = c.rest().substr(skip_space(c.rest(), 0));
      if (rest.empty() && !c.final()) {
        c.need_more();
        break;
      }
      static constexpr std::string_view kNext[] = {"<parameter=", "</function>"};
      bool markup = rest.empty();
      for (const std::string_view next : kNext) {
        markup = markup || rest.starts_with(next);
        if (!rest.empty() && rest.size() < next.size() && next.starts_with(rest)) {
          c.final() ? void(markup = true) : c.need_more();
        }
      }
      if (markup || !c.ok()) break;
      value += "</parameter>";
    }
    if (c.ok()) {
      arguments.set(key, typed_value(without_line_ends(value), parameter_schema(tools, name, key)));
    }
  }
  c.add(name, c.ok() ? arguments.dump() : "");
}

// f<arg_key>k</arg_key><arg_value>v</arg_value> ...
void glm_call(Cursor& c, const Json& tools) {
  const std::string name(c.name());
  Json arguments = Json::object();
  while (c.ok()) {
    c.space();
    if (c.at_end() && !c.final()) c.need_more();
    if (!c.take("<arg_key>")) break;
    const std::string key(blank_trimmed(c.until("</arg_key>")));
    c.space();
    c.expect("<arg_value>");
    const std::string_view value = c.until("</arg_value>");
    if (c.ok()) arguments.set(key, typed_value(value, parameter_schema(tools, name, key)));
  }
  // Without its end a call may lack arguments.
  c.space();
  c.expect("</tool_call>");
  c.add(name, c.ok() ? arguments.dump() : "");
}

void json_or_python_object(Cursor& c) {
  const std::string_view text = c.value(true);
  if (!c.ok()) return;
  auto calls = calls_of_json(text);
  if (!calls) {
    if (const std::optional<Json> literal = python_literal(text)) {
      if (std::optional<ToolCall> call = call_of_object(*literal)) calls = {{std::move(*call)}};
    }
  }
  c.add(std::move(calls));
}

Scan scan_tool_call(std::string_view text, bool final, const Json& tools) {
  Cursor c(text, final, "<tool_call>");
  c.space();
  if (c.at_end()) {
    c.need_more();
  } else if (c.peek() == '{' || c.peek() == '[') {
    while (c.ok() && (c.peek() == '{' || c.peek() == '[')) {
      // JSON first: an apostrophe in a string is no quote there.
      Cursor before = c;
      const std::string_view json = c.value();
      if (c.ok() && calls_of_json(json)) {
        c.add(calls_of_json(json));
      } else if (c.ok()) {
        c = std::move(before);
        json_or_python_object(c);
      }
      if (c.ok() && skip_space(c.rest(), 0) < c.rest().size()) c.space();
    }
    c.close("</tool_call>");
  } else if (c.peek() == '<') {
    c.expect("<function=");
    if (c.ok()) qwen_function(c, tools);
    c.close("</tool_call>");
  } else {
    glm_call(c, tools);
  }
  return c.result();
}

Scan scan_function(std::string_view text, bool final, const Json& tools) {
  Cursor c(text, final, "<function=");
  qwen_function(c, tools);
  c.close("</tool_call>");
  return c.result();
}

Scan scan_python_tag(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "<|python_tag|>");
  c.space();
  if (c.at_end()) c.need_more();
  while (c.ok()) {
    if (c.peek() == '{') {
      c.add(calls_of_json(c.value()));
    } else {
      const std::string name(c.name());
      const std::string call = name + std::string(c.value(true));
      if (c.ok()) {
        auto calls = calls_of_python(call);
        // The built-in tools are written brave_search.call(query="...").
        if (calls && calls->at(0).name.ends_with(".call")) {
          calls->at(0).name.resize(calls->at(0).name.size() - 5);
        }
        c.add(std::move(calls));
      }
    }
    if (!c.separator()) break;
  }
  return c.result();
}

Scan scan_bare_object(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "");
  do {
    c.add(calls_of_json(c.value()));
  } while (c.separator());
  return c.result();
}

Scan scan_bare_list(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "");
  const size_t inside = skip_space(text, 1);
  if (inside < text.size()) {
    const char first = text[inside];
    const bool name = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
    if (!name && first != '_' && first != '{') c.fail();
  }
  const std::string_view list = c.value(true);
  if (c.ok()) {
    auto calls = calls_of_python(list);
    c.add(calls ? std::move(calls) : calls_of_json(list));
  }
  return c.result();
}

Scan scan_mistral(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "[TOOL_CALLS]");
  c.space();
  if (c.at_end()) c.need_more();
  if (c.peek() == '[' || c.peek() == '{') {
    c.add(calls_of_json(c.value()));
    return c.result();
  }
  const std::string name(c.name());
  std::string id;
  if (c.take("[CALL_ID]")) id = blank_trimmed(c.name());
  if (c.ok()) c.take("[ARGS]");
  c.space();
  if (c.ok() && c.at_end()) c.need_more();
  c.add(name, c.value(), id);
  return c.result();
}

constexpr std::string_view kCallsBegin = "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>";
constexpr std::string_view kCallsEnd = "<\uFF5Ctool\u2581calls\u2581end\uFF5C>";
constexpr std::string_view kCallBegin = "<\uFF5Ctool\u2581call\u2581begin\uFF5C>";
constexpr std::string_view kCallEnd = "<\uFF5Ctool\u2581call\u2581end\uFF5C>";
constexpr std::string_view kCallSep = "<\uFF5Ctool\u2581sep\uFF5C>";

void deepseek_calls(Cursor& c) {
  while (c.ok()) {
    c.space();
    if (c.at_end() && !c.final()) c.need_more();
    if (!c.take(kCallBegin)) break;
    std::string name(blank_trimmed(c.until(kCallSep)));
    if (name == "function") {  // V3 and R1: the type first, then name and a fenced object
      name = blank_trimmed(c.until("\n"));
      c.space();
      if (c.take("```json") || (c.ok() && c.take("```"))) c.space();
    }
    c.space();
    if (c.ok() && c.at_end()) c.need_more();
    c.add(name, c.value());
    c.space();
    if (c.ok()) c.take("```");
    c.close(kCallEnd);
  }
}
Scan scan_deepseek(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, kCallsBegin);
  deepseek_calls(c);
  c.close(kCallsEnd);
  return c.result();
}
Scan scan_deepseek_call(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "");
  deepseek_calls(c);
  c.close(kCallsEnd);
  return c.result();
}

Scan scan_tool_code(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "```tool_code");
  std::string_view body = blank_trimmed(
      text.find("```", 12) == std::string_view::npos && final ? c.rest() : c.until("```"));
  if (!c.ok()) return c.result();
  if (body.starts_with("print(") && body.ends_with(')')) {
    body = body.substr(6, body.size() - 7);
  }
  c.add(calls_of_python(body));
  Scan out = c.result();
  if (out.state == Scan::State::Done && text.find("```", 12) == std::string_view::npos) {
    out.end = text.size();
  }
  return out;
}

constexpr std::string_view kGemmaQuote = "<|\"|>";

// Gemma 4's notation of an object as JSON: bare keys, strings between <|"|>.
std::string gemma_json(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.substr(i).starts_with(kGemmaQuote)) {
      const size_t begin = i + kGemmaQuote.size();
      const size_t end = text.find(kGemmaQuote, begin);
      if (end == std::string_view::npos) return {};
      append_json_string(out, text.substr(begin, end - begin));
      i = end + kGemmaQuote.size();
      continue;
    }
    static constexpr std::string_view kMarks = "{}[],: \t\r\n";
    if (kMarks.find(text[i]) != std::string_view::npos) {
      out += text[i++];
      continue;
    }
    const size_t end = std::min(text.find_first_of("{}[],:", i), text.size());
    const std::string_view word = blank_trimmed(text.substr(i, end - i));
    const bool key = end < text.size() && text[end] == ':';
    if (!key && Json::parse(word).ok()) {
      out += word;
    } else {
      append_json_string(out, word);
    }
    i = end;
  }
  return out;
}

// End of such an object: brackets between <|"|> do not count.
size_t gemma_end(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kGemmaQuote)) {
      const size_t end = text.find(kGemmaQuote, i + kGemmaQuote.size());
      if (end == std::string_view::npos) return kMore;
      i = end + kGemmaQuote.size() - 1;
    } else if (text[i] == '{' || text[i] == '[') {
      ++depth;
    } else if (text[i] == '}' || text[i] == ']') {
      if (--depth == 0) return i + 1;
    }
  }
  return kMore;
}

Scan scan_gemma4(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "<|tool_call>");
  c.space();
  c.expect("call:");
  const std::string name(c.name());
  if (c.ok() && c.at_end()) c.need_more();
  if (c.ok() && c.peek() != '{') c.fail();
  if (c.ok()) {
    const std::string_view rest = c.rest();
    const size_t end = gemma_end(rest, 0);
    if (end == kMore) {
      c.need_more();
    } else {
      const std::string_view object = rest.substr(0, end);
      c.expect(object);
      const std::string json = gemma_json(object);
      c.add(name, json.empty() ? "?" : json);
    }
  }
  c.close("<tool_call|>");
  return c.result();
}

Scan scan_harmony(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "");
  c.until("to=");
  std::string name(c.name());
  if (name.starts_with("functions.")) name.erase(0, 10);
  const std::string_view header = c.until("<|message|>");
  if (header.find("<|end|>") != std::string_view::npos) c.fail();
  c.space();
  if (c.ok() && c.at_end()) c.need_more();
  c.add(name, c.value());
  c.close("<|call|>");
  return c.result();
}

Scan json_block(std::string_view text, bool final, std::string_view open,
                std::initializer_list<std::string_view> ends) {
  Cursor c(text, final, open);
  c.space();
  if (c.at_end()) c.need_more();
  c.add(calls_of_json(c.value()));
  c.close_any(ends);
  return c.result();
}
Scan scan_granite(std::string_view text, bool final, const Json&) {
  return json_block(text, final, "<|tool_call|>", {"<|/tool_call|>", "</|tool_call|>"});
}
Scan scan_start_action(std::string_view text, bool final, const Json&) {
  Scan s = json_block(text, final, "<|START_ACTION|>", {"<|END_ACTION|>"});
  return s;
}
Scan scan_action(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "Action:");
  c.space();
  c.expect("```json");
  c.space();
  if (c.ok() && c.at_end()) c.need_more();
  c.add(calls_of_json(c.value()));
  c.close("```");
  return c.result();
}

void kimi_calls(Cursor& c) {
  while (c.ok()) {
    c.space();
    if (c.at_end() && !c.final()) c.need_more();
    if (!c.take("<|tool_call_begin|>")) break;
    const std::string id(blank_trimmed(c.until("<|tool_call_argument_begin|>")));
    std::string_view name = id;
    if (name.starts_with("functions.")) name.remove_prefix(10);
    name = name.substr(0, name.rfind(':'));
    c.space();
    if (c.ok() && c.at_end()) c.need_more();
    c.add(name, c.value(), id);
    c.close("<|tool_call_end|>");
  }
}
Scan scan_kimi(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "<|tool_calls_section_begin|>");
  kimi_calls(c);
  c.close("<|tool_calls_section_end|>");
  return c.result();
}
Scan scan_kimi_call(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "");
  kimi_calls(c);
  c.close("<|tool_calls_section_end|>");
  return c.result();
}

Scan scan_lfm2(std::string_view text, bool final, const Json&) {
  Cursor c(text, final, "<|tool_call_start|>");
  c.space();
  if (c.at_end()) c.need_more();
  const std::string_view list = c.value(true);
  if (c.ok()) {
    auto calls = calls_of_python(list);
    c.add(calls ? std::move(calls) : calls_of_json(list));
  }
  c.close("<|tool_call_end|>");
  return c.result();
}

}  // namespace

std::vector<Opener> openers_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::Generic:
      return {{"<tool_call>", scan_tool_call},
              {"{", scan_bare_object, true},
              {"[", scan_bare_list, true}};
    case ToolFormat::Hermes:
      return {{"<tool_call>", scan_tool_call}};
    case ToolFormat::QwenCoder:
      return {{"<tool_call>", scan_tool_call}, {"<function=", scan_function}};
    case ToolFormat::Glm:
      return {{"<tool_call>", scan_tool_call}};
    case ToolFormat::Llama3Json:
      return {{"<|python_tag|>", scan_python_tag}, {"{", scan_bare_object, true}};
    case ToolFormat::Llama3Python:
      return {{"<|python_tag|>", scan_python_tag}, {"[", scan_bare_list, true}};
    case ToolFormat::Mistral:
      return {{"[TOOL_CALLS]", scan_mistral}};
    case ToolFormat::DeepSeek:
      return {{kCallsBegin, scan_deepseek}, {kCallBegin, scan_deepseek_call}};
    case ToolFormat::Gemma3:
      return {{"```tool_code", scan_tool_code}};
    case ToolFormat::Gemma4:
      return {{"<|tool_call>", scan_gemma4}};
    case ToolFormat::Harmony:
      return {{"<|start|>assistant<|channel|>commentary to=", scan_harmony},
              {"<|start|>assistant<|channel|>analysis to=", scan_harmony},
              {"<|start|>assistant to=", scan_harmony},
              {"<|channel|>commentary to=", scan_harmony},
              {"<|channel|>analysis to=", scan_harmony}};
    case ToolFormat::Granite:
      return {{"<|tool_call|>", scan_granite}};
    case ToolFormat::CommandR:
      return {{"<|START_ACTION|>", scan_start_action}, {"Action:", scan_action}};
    case ToolFormat::KimiK2:
      return {{"<|tool_calls_section_begin|>", scan_kimi}, {"<|tool_call_begin|>", scan_kimi_call}};
    case ToolFormat::Lfm2:
      break;
  }
  return {{"<|tool_call_start|>", scan_lfm2}};
}

}  // namespace mlxcel::text::tools
