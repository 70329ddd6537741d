// The pprint filter: Python's pprint.pformat with its defaults (width 80, sorted dicts).
#include <algorithm>

#include "base/utf8.h"
#include "text/jinja_builtins.h"
#include "text/jinja_str_search.h"
#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

namespace {

using Entry = DictObject::Entry;

int64_t columns(std::string_view text) { return static_cast<int64_t>(utf8::count(text)); }

/// Keys in order; values without an order by the name of their type.
std::vector<Entry> sorted_entries(Runtime& runtime, const DictObject& dict) {
  std::vector<Entry> entries = dict.entries();
  const Charge room(&runtime.heap(), entries.size() * sizeof(Entry));
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    try {
      return ordered(runtime, a.first, b.first);
    } catch (const Failure& failure) {
      if (failure.fault() != Fault::Type) throw;
      return type_name(a.first) < type_name(b.first);
    }
  });
  return entries;
}

void plain_repr(Runtime& runtime, TextBuilder& out, const Value& value) {
  const Runtime::Recursion recursion(runtime);
  runtime.heap().step();
  if (value.is_list()) {
    const bool tuple = value.is(Type::Tuple);
    out.append(tuple ? '(' : '[');
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) out.append(", ");
      plain_repr(runtime, out, value.items()[i]);
    }
    if (tuple && value.items().size() == 1) out.append(',');
    out.append(tuple ? ')' : ']');
  } else if (value.is_dict()) {
    out.append('{');
    bool first = true;
    for (const auto& [key, item] : sorted_entries(runtime, *value.as<DictObject>())) {
      if (!first) out.append(", ");
      first = false;
      plain_repr(runtime, out, key);
      out.append(": ");
      plain_repr(runtime, out, item);
    }
    out.append('}');
  } else {
    append_repr(runtime, out, value);
  }
}

std::string repr_of(Runtime& runtime, const Value& value) {
  TextBuilder out(runtime);
  plain_repr(runtime, out, value);
  return out.take();
}

class PrettyPrinter {
 public:
  explicit PrettyPrinter(Runtime& runtime) : runtime_(runtime), out_(runtime) {}
  std::string run(const Value& value) {
    format(value, 0, 0, 1);
    return out_.take();
  }

 private:
  static constexpr int64_t kWidth = 80;

  void format(const Value& value, int64_t indent, int64_t allowance, int level) {
    const Runtime::Recursion recursion(runtime_);
    const std::string text = repr_of(runtime_, value);
    const bool structured = value.is_list() || value.is_dict() || value.is_string();
    if (columns(text) <= kWidth - indent - allowance || !structured) return out_.append(text);
    if (value.is_dict()) {
      format_dict(*value.as<DictObject>(), indent, allowance, level);
    } else if (value.is_string()) {
      format_text(value.text(), indent, allowance, level);
    } else {
      const bool tuple = value.is(Type::Tuple);
      const std::string_view end = !tuple ? "]" : value.items().size() == 1 ? ",)" : ")";
      out_.append(tuple ? '(' : '[');
      format_items(value.items(), indent, allowance + static_cast<int64_t>(end.size()), level);
      out_.append(end);
    }
  }

  void new_line(std::string_view before, int64_t indent) {
    out_.append(before);
    out_.append('\n');
    out_.repeat(" ", indent);
  }

  void format_items(const std::vector<Value>& items, int64_t indent, int64_t allowance, int level) {
    ++indent;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) new_line(",", indent);
      format(items[i], indent, i + 1 == items.size() ? allowance : 1, level + 1);
    }
  }

  void format_dict(const DictObject& dict, int64_t indent, int64_t allowance, int level) {
    out_.append('{');
    const std::vector<Entry> entries = sorted_entries(runtime_, dict);
    ++indent;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) new_line(",", indent);
      const std::string key = repr_of(runtime_, entries[i].first);
      out_.append(key);
      out_.append(": ");
      format(entries[i].second, indent + columns(key) + 2,
             i + 1 == entries.size() ? allowance + 1 : 1, level + 1);
    }
    out_.append('}');
  }

  /// Words with the white space after them.
  static std::vector<std::string_view> parts_of(std::string_view line) {
    std::vector<std::string_view> parts;
    while (!line.empty()) {
      size_t end = 0;
      bool space = false;
      while (end < line.size()) {
        const utf8::Decoded c = utf8::decode(line.substr(end));
        const bool is_blank = is_space(c.code_point);
        if (space && !is_blank) break;
        space = is_blank;
        end += static_cast<size_t>(c.length);
      }
      parts.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    return parts;
  }

  void format_text(std::string_view text, int64_t indent, int64_t allowance, int level) {
    if (level == 1) {
      ++indent;
      ++allowance;
    }
    const int64_t width = kWidth - indent;
    std::vector<std::string> chunks;
    const std::vector<std::string_view> lines = split_lines(runtime_, text, true);
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      const std::string whole = repr_string(lines[i]);
      if (columns(whole) <= width - (last_line ? allowance : 0)) {
        chunks.push_back(whole);
        continue;
      }
      const std::vector<std::string_view> parts = parts_of(lines[i]);
      std::string current;
      for (size_t j = 0; j < parts.size(); ++j) {
        runtime_.heap().touch(current.size() + parts[j].size());
        const bool last = last_line && j + 1 == parts.size();
        const std::string candidate = current + std::string(parts[j]);
        if (columns(repr_string(candidate)) > width - (last ? allowance : 0)) {
          if (!current.empty()) chunks.push_back(repr_string(current));
          current = parts[j];
        } else {
          current = candidate;
        }
      }
      if (!current.empty()) chunks.push_back(repr_string(current));
    }
    if (chunks.size() == 1) return out_.append(repr_string(text));
    if (level == 1) out_.append('(');
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line("", indent);
      out_.append(chunks[i]);
    }
    if (level == 1) out_.append(')');
  }

  Runtime& runtime_;
  TextBuilder out_;
};

}  // namespace

Value filter_pprint(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("pprint", args, {});
  return runtime.string(PrettyPrinter(runtime).run(subject));
}

}  // namespace mlxcel::text::jinja
