// The filter table, and what map, select and sort share: looking up a dotted attribute of an item.
#include "text/jinja_filters.h"

#include <algorithm>
#include <unordered_map>

#include "text/jinja_unicode.h"

namespace mlxcel::text::jinja {

FilterFn find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kTable = [] {
    std::unordered_map<std::string_view, FilterFn> table;
    for (const auto family : {text_filters(), html_filters(), sequence_filters(),
                              selection_filters(), number_filters()}) {
      for (const NamedFilter& filter : family) table.emplace(filter.name, filter.function);
    }
    return table;
  }();
  const auto found = kTable.find(name);
  return found == kTable.end() ? nullptr : found->second;
}

AttributePath::AttributePath(Runtime& runtime, const Value& attribute) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    int64_t index = 0;
    runtime.heap().step();
    if (digits && parse_python_int(part, 10, index)) {
      parts_.emplace_back(index);
    } else {
      parts_.push_back(runtime.string(std::string(part)));
    }
    if (dot == std::string_view::npos) return;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::of(Runtime& runtime, const Value& item, const Value& fallback) const {
  Value value = item;
  for (const Value& part : parts_) {
    runtime.heap().step();
    value = get_item(runtime, value, part);
    if (value.is_undefined() && !fallback.is_none()) value = fallback;
  }
  return value;
}

Value fold_case(Runtime& runtime, const Value& value) {
  return value.is_string() ? runtime.string(to_lower(value.text())) : value;
}

void stable_sort_by(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse) {
  const Charge room(&runtime.heap(), items.size() * (sizeof(size_t) * 2 + sizeof(Value)));
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? ordered(runtime, keys[b], keys[a]) : ordered(runtime, keys[a], keys[b]);
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
}

}  // namespace mlxcel::text::jinja
