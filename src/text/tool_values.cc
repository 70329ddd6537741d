#include "text/tool_values.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace mlxcel::text::tools {

namespace {

constexpr int kMaxDepth = 100;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

std::string_view trimmed(std::string_view t) {
  while (!t.empty() && is_space(t.front())) t.remove_prefix(1);
  while (!t.empty() && is_space(t.back())) t.remove_suffix(1);
  return t;
}

size_t balanced(std::string_view text, size_t at, bool python) {
  if (at >= text.size()) return kMore;
  static constexpr std::string_view kOpen = "{[(";
  static constexpr std::string_view kClose = "}])";
  if (kOpen.find(text[at]) == std::string_view::npos) return kBad;
  std::string stack;
  char quote = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = 0;
      }
      continue;
    }
    if (c == '"' || (python && c == '\'')) {
      quote = c;
    } else if (const size_t o = kOpen.find(c); o != std::string_view::npos) {
      stack += kClose[o];
      if (stack.size() > kMaxDepth) return kBad;
    } else if (kClose.find(c) != std::string_view::npos) {
      if (stack.back() != c) return kBad;
      stack.pop_back();
      if (stack.empty()) return i + 1;
    }
  }
  return kMore;
}

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::optional<Json> literal_only() {
    std::optional<Json> v = value(0);
    space();
    return v && at_ == text_.size() ? v : std::nullopt;
  }

  std::optional<std::vector<ToolCall>> calls() {
    std::vector<ToolCall> out;
    space();
    const bool list = take('[');
    while (true) {
      space();
      if (list && take(']')) break;
      if (at_ == text_.size()) break;
      std::optional<ToolCall> c = call();
      if (!c) return {};
      out.push_back(std::move(*c));
      space();
      if (!take(',') && !take(';') && list) {
        if (!take(']')) return {};
        break;
      }
    }
    space();
    if (at_ != text_.size() || out.empty()) return {};
    return out;
  }

 private:
  void space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<ToolCall> call() {
    ToolCall out;
    out.name = name();
    space();
    if (out.name.empty() || !take('(')) return {};
    Json arguments = Json::object();
    while (true) {
      space();
      if (take(')')) break;
      const std::string key = name();
      space();
      if (key.empty() || !take('=')) return {};
      std::optional<Json> v = value(0);
      if (!v) return {};
      arguments.set(key, std::move(*v));
      space();
      if (!take(',')) {
        if (!take(')')) return {};
        break;
      }
    }
    out.arguments = arguments.dump();
    return out;
  }

  std::optional<Json> value(int depth) {
    if (depth > kMaxDepth) return {};
    space();
    if (at_ >= text_.size()) return {};
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string();
    if (c == '[' || c == '(') return list(depth, c == '[' ? ']' : ')');
    if (c == '{') return dict(depth);
    const size_t begin = at_;
    while (at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '+')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json();
    int64_t whole = 0;
    const char* const end = word.data() + word.size();
    if (const auto r = std::from_chars(word.data(), end, whole);
        r.ec == std::errc() && r.ptr == end && !word.empty()) {
      return Json(whole);
    }
    double real = 0;
    if (const auto r = std::from_chars(word.data(), end, real);
        r.ec == std::errc() && r.ptr == end && !word.empty() && real - real == 0) {
      return Json(real);
    }
    return {};
  }

  std::optional<Json> list(int depth, char close) {
    ++at_;
    Json out = Json::array();
    while (true) {
      space();
      if (take(close)) return out;
      std::optional<Json> v = value(depth + 1);
      if (!v) return {};
      out.push_back(std::move(*v));
      space();
      if (!take(',') && (at_ >= text_.size() || text_[at_] != close)) return {};
    }
  }
  std::optional<Json> dict(int depth) {
    ++at_;
    Json out = Json::object();
    while (true) {
      space();
      if (take('}')) return out;
      std::optional<Json> key = value(depth + 1);
      space();
      if (!key || !key->is_string() || !take(':')) return {};
      std::optional<Json> v = value(depth + 1);
      if (!v) return {};
      out.set(key->as_string(), std::move(*v));
      space();
      if (!take(',') && (at_ >= text_.size() || text_[at_] != '}')) return {};
    }
  }

  std::optional<Json> string() {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == quote) return Json(out);
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) return {};
      const char e = text_[at_++];
      switch (e) {
        case 'n':
          out += '\n';
          break;
        case 't':
          out += '\t';
          break;
        case 'r':
          out += '\r';
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'u':
        case 'x': {
          uint32_t p = 0;
          const size_t digits = e == 'u' ? 4 : 2;
          if (at_ + digits > text_.size()) return {};
          const char* const first = text_.data() + at_;
          const auto r = std::from_chars(first, first + digits, p, 16);
          if (r.ptr != first + digits) return {};
          at_ += digits;
          utf8::append(out, p);
          break;
        }
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          out += e;
          break;
        default:  // Python keeps unknown escapes as they are
          out += '\\';
          out += e;
      }
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

size_t json_end(std::string_view text, size_t at) { return balanced(text, at, false); }
size_t bracket_end(std::string_view text, size_t at) { return balanced(text, at, true); }
size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

std::optional<ToolCall> call_of_object(const Json& object) {
  if (!object.is_object()) return {};
  if (const Json* inner = object.find("tool_call"); inner != nullptr) return call_of_object(*inner);
  const Json* name = nullptr;
  for (const char* key : {"name", "tool_name", "function"}) {
    name = object.find(key);
    if (name != nullptr && name->is_object()) return call_of_object(*name);
    if (name != nullptr) break;
  }
  if (name == nullptr || !name->is_string() || name->as_string().empty()) return {};
  ToolCall call{.id = {}, .name = name->as_string(), .arguments = "{}"};
  for (const char* key : {"arguments", "parameters", "args"}) {
    const Json* a = object.find(key);
    if (a == nullptr || a->is_null()) continue;
    if (a->is_object()) {
      call.arguments = a->dump();
    } else if (a->is_string()) {
      const Result<Json> inner = Json::parse(a->as_string().empty() ? "{}" : a->as_string());
      if (!inner.ok() || !inner.value().is_object()) return {};
      call.arguments = inner.value().dump();
    } else {
      return {};
    }
    break;
  }
  for (const char* key : {"id", "tool_call_id"}) {
    const Json* id = object.find(key);
    if (id != nullptr && id->is_string()) call.id = id->as_string();
  }
  return call;
}

std::optional<std::vector<ToolCall>> calls_of_json(std::string_view text) {
  const Result<Json> json = Json::parse(trimmed(text));
  if (!json.ok()) return {};
  std::vector<ToolCall> out;
  const auto add = [&](const Json& v) {
    std::optional<ToolCall> c = call_of_object(v);
    if (c) out.push_back(std::move(*c));
    return c.has_value();
  };
  if (json.value().is_array()) {
    for (const Json& v : json.value().as_array()) {
      if (!add(v)) return {};
    }
  } else if (!add(json.value())) {
    return {};
  }
  if (out.empty()) return {};
  return out;
}

std::optional<std::vector<ToolCall>> calls_of_python(std::string_view text) {
  return PythonReader(trimmed(text)).calls();
}
std::optional<Json> python_literal(std::string_view text) {
  return PythonReader(trimmed(text)).literal_only();
}

const Json* parameter_schema(const Json& tools, std::string_view tool, std::string_view parameter) {
  if (!tools.is_array()) return nullptr;
  for (const Json& t : tools.as_array()) {
    const Json* function = t.find("function");
    if (function == nullptr) function = &t;
    const Json* name = function->find("name");
    if (name == nullptr || !name->is_string() || name->as_string() != tool) continue;
    const Json* schema = function->find("parameters");
    const Json* properties = schema != nullptr ? schema->find("properties") : nullptr;
    return properties != nullptr ? properties->find(parameter) : nullptr;
  }
  return nullptr;
}

namespace {

bool allows(const Json* schema, std::string_view type) {
  const Json* t = schema != nullptr ? schema->find("type") : nullptr;
  if (t == nullptr) return false;
  if (t->is_string()) return t->as_string() == type;
  return t->is_array() && std::ranges::any_of(t->as_array(), [&](const Json& one) {
           return one.is_string() && one.as_string() == type;
         });
}

}  // namespace

Json typed_value(std::string_view text, const Json* schema) {
  const bool string_only =
      allows(schema, "string") && (schema->find("type")->is_string() || text != "null");
  if (string_only) return Json(text);
  const std::string_view value = trimmed(text);
  if (allows(schema, "integer") || allows(schema, "number")) {
    // Leading zeros and a plus are numbers to a reader, not to JSON.
    std::string_view digits = value;
    const bool minus = digits.starts_with('-');
    if (minus || digits.starts_with('+')) digits.remove_prefix(1);
    const bool plain =
        !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    int64_t whole = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
    if (plain && r.ec == std::errc()) return Json(minus ? -whole : whole);
  }
  if (allows(schema, "boolean")) {
    std::string lower(value);
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    if (lower == "true" || lower == "false") return Json(lower == "true");
  }
  if (const Result<Json> json = Json::parse(value); json.ok()) return json.value();
  if (std::optional<Json> literal = python_literal(value)) return *literal;
  return Json(text);
}

}  // namespace mlxcel::text::tools
