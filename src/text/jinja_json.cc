// The tojson filter as transformers defines it: Python's json.dumps with ensure_ascii off by
// default.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_filters.h"

namespace mlxcel::text::jinja {

namespace {

void append_unicode_escape(TextBuilder& out, uint32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  char text[6] = {'\\', 'u'};
  for (int i = 0; i < 4; ++i) text[2 + i] = kHex[unit >> (12 - 4 * i) & 15U];
  out.append(std::string_view(text, sizeof text));
}

void append_escaped(TextBuilder& out, char32_t c) {
  if (c >= 0x10000) {
    append_unicode_escape(out, 0xD800 + ((c - 0x10000) >> 10));
    append_unicode_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
  } else {
    append_unicode_escape(out, c);
  }
}

void append_json_text(TextBuilder& out, std::string_view text, bool ascii) {
  out.append('"');
  size_t plain = 0;  // start of the run not yet written
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::decode(text.substr(at));
    const char32_t code = c.code_point;
    const size_t next = at + static_cast<size_t>(c.length);
    if (code >= 0x20 && code != '"' && code != '\\' && (code < 0x7F || !ascii || code == 0x7F)) {
      at = next;
      continue;
    }
    out.append(text.substr(plain, at - plain));
    switch (code) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\f':
        out.append("\\f");
        break;
      case '\b':
        out.append("\\b");
        break;
      default:
        append_escaped(out, code);
    }
    plain = at = next;
  }
  out.append(text.substr(plain));
  out.append('"');
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const Bound& bound) : runtime_(runtime), out_(runtime) {
    ascii_ = bound.flag(0, false);
    pretty_ = !bound[1].is_none();
    if (bound[1].is_string()) {
      unit_ = bound[1].text();
    } else if (pretty_) {
      const int64_t width = std::max<int64_t>(0, bound.integer(1, 0));
      runtime.heap().check_string(static_cast<size_t>(width));
      unit_ = std::string(static_cast<size_t>(width), ' ');
    }
    comma_ = pretty_ ? "," : ", ";
    if (!bound[2].is_none()) {
      const std::vector<Value> parts = iterate(runtime, bound[2]);
      if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string()) {
        fail(Fault::Value, "tojson: separators must be two strings");
      }
      comma_ = parts[0].text();
      colon_ = parts[1].text();
    }
    sort_ = bound.flag(3, false);
  }

  void write(const Value& value) {
    const Runtime::Recursion recursion(runtime_);
    runtime_.heap().step();
    switch (value.type()) {
      case Type::None:
        out_.append("null");
        break;
      case Type::Bool:
        out_.append(value.integer() != 0 ? "true" : "false");
        break;
      case Type::Int:
        out_.append(std::to_string(value.integer()));
        break;
      case Type::Float:
        out_.append(number(value.real()));
        break;
      case Type::String:
        append_json_text(out_, value.text(), ascii_);
        break;
      case Type::List:
      case Type::Tuple:
        write_list(value.items());
        break;
      case Type::Dict:
        write_dict(*value.as<DictObject>());
        break;
      default:
        fail(Fault::Type, "Object of type " + type_name(value) + " is not JSON serializable");
    }
  }

  std::string take() { return out_.take(); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_repr(value);
  }

  void new_line() {
    if (!pretty_) return;
    out_.append('\n');
    out_.repeat(unit_, level_);
  }

  void write_list(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append('[');
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(comma_);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    out_.append(']');
  }

  std::string key_text(const Value& key) const {
    switch (key.type()) {
      case Type::String:
        return std::string(key.text());
      case Type::None:
        return "null";
      case Type::Bool:
        return key.integer() != 0 ? "true" : "false";
      case Type::Int:
        return std::to_string(key.integer());
      case Type::Float:
        return number(key.real());
      default:
        fail(Fault::Type, "keys must be str, int, float, bool or None, not " + type_name(key));
    }
  }

  void write_dict(const DictObject& dict) {
    if (dict.entries().empty()) return out_.append("{}");
    ListBuilder pairs(runtime_), keys(runtime_);
    for (const auto& [key, value] : dict.entries()) {
      pairs.push(runtime_.tuple({key, value}));
      keys.push(key);
    }
    if (sort_) stable_sort_by(runtime_, pairs.items(), keys.items(), false);
    out_.append('{');
    ++level_;
    for (size_t i = 0; i < pairs.items().size(); ++i) {
      const std::vector<Value>& pair = pairs.items()[i].items();
      if (i > 0) out_.append(comma_);
      new_line();
      append_json_text(out_, key_text(pair[0]), ascii_);
      out_.append(colon_);
      write(pair[1]);
    }
    --level_;
    new_line();
    out_.append('}');
  }

  Runtime& runtime_;
  TextBuilder out_;
  std::string unit_, comma_, colon_ = ": ";
  bool ascii_ = false, pretty_ = false, sort_ = false;
  int64_t level_ = 0;
};

}  // namespace

Value filter_tojson(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonWriter writer(runtime, bound);
  writer.write(subject);
  return runtime.string(writer.take());
}

}  // namespace mlxcel::text::jinja
