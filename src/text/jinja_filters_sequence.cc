// Filters on sequences as a whole.
#include <algorithm>
#include <random>

#include "text/jinja_filters.h"
#include "text/jinja_objects.h"

namespace mlxcel::text::jinja {

namespace {

Value count(Runtime& runtime, const Value& subject, Args&) { return length(runtime, subject); }

Value to_list(Runtime& runtime, const Value& subject, Args&) {
  return runtime.list(iterate(runtime, subject));
}

Value first(Runtime& runtime, const Value& subject, Args&) {
  const std::vector<Value> items = iterate(runtime, subject);
  return items.empty() ? runtime.undefined("No first item, sequence was empty.") : items.front();
}

/// Python's reversed() works on sequences and dicts, not on iterators.
void require_reversible(const Value& subject) {
  if (subject.is(Type::Object) && subject.object()->length() < 0) {
    fail(Fault::Type, "'" + type_name(subject) + "' object is not reversible");
  }
}

Value last(Runtime& runtime, const Value& subject, Args&) {
  require_reversible(subject);
  if (subject.is_undefined()) fail(Fault::Type, "'Undefined' object is not reversible");
  const std::vector<Value> items = iterate(runtime, subject);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value random_item(Runtime& runtime, const Value& subject, Args&) {
  if (subject.is_dict()) fail(Fault::Lookup, "random needs a sequence, not a dict");
  const int64_t size = length(runtime, subject);
  if (size == 0) return runtime.undefined("No random item, sequence was empty.");
  std::random_device device;
  return get_item(runtime, subject,
                  Value(std::uniform_int_distribution<int64_t>(0, size - 1)(device)));
}

Value reverse(Runtime& runtime, const Value& subject, Args&) {
  if (subject.is_string()) {
    return get_slice(runtime, subject, Value::none(), Value::none(), Value(-1));
  }
  if (!is_iterable(subject)) fail(Fault::Runtime, "argument must be iterable");
  std::vector<Value> items = iterate(runtime, subject);
  std::reverse(items.begin(), items.end());
  if (subject.is_undefined() || (subject.is(Type::Object) && subject.object()->length() < 0)) {
    return runtime.list(std::move(items));
  }
  const std::string type = subject.is(Type::List) ? "list_reverseiterator" : "reversed";
  return {Type::Object, std::make_shared<Generator>(&runtime.heap(), std::move(items), type)};
}

Value items(Runtime& runtime, const Value& subject, Args&) {
  ListBuilder out(runtime);
  if (!subject.is_undefined()) {
    const auto* dict = subject.as<DictObject>();
    if (dict == nullptr) fail(Fault::Type, "Can only get item pairs from a mapping.");
    for (const auto& [key, value] : dict->entries()) out.push(runtime.tuple({key, value}));
  }
  return out.generator();
}

Value join(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("join", args, {"d", "attribute"});
  const AttributePath path(runtime, bound[1]);
  std::vector<Value> parts = iterate(runtime, subject);
  for (Value& part : parts) part = path.of(runtime, part);
  const Value separator = bound.given(0) ? bound[0] : runtime.string("");
  const bool markup =
      runtime.autoescape() &&
      (separator.is_markup() ||
       std::any_of(parts.begin(), parts.end(), [](const Value& v) { return v.is_markup(); }));
  TextBuilder out(runtime);
  const auto add = [&](const Value& value) {
    if (markup) {
      append_str(runtime, out, escape(runtime, value));
    } else {
      append_str(runtime, out, value);
    }
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) add(separator);
    add(parts[i]);
  }
  return make_string(&runtime.heap(), out.take(), markup);
}

Value batch(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = bound.integer(0, 0);
  ListBuilder out(runtime), row(runtime);
  for (const Value& item : iterate(runtime, subject)) {
    if (static_cast<int64_t>(row.items().size()) == size) {
      out.push(row.list());
      row.items().clear();
    }
    row.push(item);
  }
  if (!row.items().empty()) {
    if (!bound[1].is_none()) {
      while (static_cast<int64_t>(row.items().size()) < size) row.push(bound[1]);
    }
    out.push(row.list());
  }
  return out.generator();
}

Value slice(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("slice", args, {"slices", "fill_with"}, 1);
  const std::vector<Value> all = iterate(runtime, subject);
  const int64_t slices = bound.integer(0, 0);
  if (slices == 0) fail(Fault::ZeroDivision, "integer division or modulo by zero");
  ListBuilder out(runtime);
  if (slices < 0) return out.generator();
  const auto size = static_cast<int64_t>(all.size());
  const int64_t each = size / slices, extra = size % slices;
  for (int64_t n = 0, at = 0; n < slices; ++n) {
    const int64_t end = at + each + (n < extra ? 1 : 0);
    ListBuilder part(runtime);
    for (; at < end; ++at) part.push(all[static_cast<size_t>(at)]);
    if (!bound[1].is_none() && n >= extra) part.push(bound[1]);
    out.push(part.list());
  }
  return out.generator();
}

Value dictsort(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string_view by = bound.text(1, "key");
  if (by != "key" && by != "value") {
    fail(Fault::Runtime, "You can only sort by either \"key\" or \"value\"");
  }
  if (subject.is_undefined()) fail_undefined(subject);
  const auto* dict = subject.as<DictObject>();
  if (dict == nullptr) {
    fail(Fault::Type, "'" + type_name(subject) + "' object has no attribute 'items'");
  }
  ListBuilder pairs(runtime), keys(runtime);
  for (const auto& [key, value] : dict->entries()) {
    pairs.push(runtime.tuple({key, value}));
    const Value& sort_key = by == "key" ? key : value;
    keys.push(bound.flag(0, false) ? sort_key : fold_case(runtime, sort_key));
  }
  stable_sort_by(runtime, pairs.items(), keys.items(), bound.flag(2, false));
  return pairs.list();
}

Value sort(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributePath> paths;
  if (bound[2].is_string()) {
    std::string_view rest = bound[2].text();
    for (size_t comma = 0; comma != std::string_view::npos;
         rest.remove_prefix(std::min(rest.size(), comma + 1))) {
      comma = rest.find(',');
      paths.emplace_back(runtime, runtime.string(std::string(rest.substr(0, comma))));
      if (comma == std::string_view::npos) break;
    }
  } else {
    paths.emplace_back(runtime, bound[2]);
  }
  std::vector<Value> all = iterate(runtime, subject);
  ListBuilder keys(runtime);
  for (const Value& item : all) {
    ListBuilder key(runtime);
    for (const AttributePath& path : paths) {
      const Value part = path.of(runtime, item);
      key.push(bound.flag(1, false) ? part : fold_case(runtime, part));
    }
    keys.push(key.list());
  }
  stable_sort_by(runtime, all, keys.items(), bound.flag(0, false));
  return runtime.list(std::move(all));
}

Value unique(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("unique", args, {"case_sensitive", "attribute"});
  const AttributePath path(runtime, bound[1]);
  DictObject seen(&runtime.heap());
  ListBuilder out(runtime);
  for (const Value& item : iterate(runtime, subject)) {
    Value key = path.of(runtime, item);
    if (!bound.flag(0, false)) key = fold_case(runtime, key);
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value::none());
    out.push(item);
  }
  return out.generator();
}

template <bool largest>
Value extreme(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound(largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const AttributePath path(runtime, bound[1]);
  const auto key_of = [&](const Value& item) {
    const Value key = path.of(runtime, item);
    return bound.flag(0, false) ? key : fold_case(runtime, key);
  };
  const std::vector<Value> all = iterate(runtime, subject);
  if (all.empty()) return runtime.undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = key_of(all[0]);
  for (size_t i = 1; i < all.size(); ++i) {
    Value key = key_of(all[i]);
    if (ordered(runtime, key, best_key, largest ? ">" : "<")) {
      best = i;
      best_key = std::move(key);
    }
  }
  return all[best];
}

Value sum(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("sum", args, {"attribute", "start"});
  const AttributePath path(runtime, bound[0]);
  Value total = bound.given(1) ? bound[1] : Value(0);
  if (total.is_string()) {
    fail(Fault::Type, "sum() can't sum strings [use ''.join(seq) instead]");
  }
  for (const Value& item : iterate(runtime, subject)) {
    total = binary(runtime, "+", total, path.of(runtime, item));
  }
  return total;
}

Value groupby(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(runtime, bound[0]);
  std::vector<Value> all = iterate(runtime, subject);
  const auto key_of = [&](const Value& item) {
    const Value key = path.of(runtime, item, bound[1]);
    return bound.flag(2, false) ? key : fold_case(runtime, key);
  };
  ListBuilder keys(runtime);
  for (const Value& item : all) keys.push(key_of(item));
  stable_sort_by(runtime, all, keys.items(), false);
  ListBuilder groups(runtime);
  for (size_t i = 0; i < all.size();) {
    const Value key = key_of(all[i]);
    const Value shown = path.of(runtime, all[i], bound[1]);
    ListBuilder members(runtime);
    for (; i < all.size() && equal(key_of(all[i]), key); ++i) members.push(all[i]);
    groups.push(
        {Type::Tuple, std::make_shared<ListObject>(
                          &runtime.heap(), std::vector<Value>{shown, members.list()}, true)});
  }
  return groups.list();
}

constexpr NamedFilter kFilters[] = {
    {"batch", batch},        {"count", count},       {"dictsort", dictsort},
    {"first", first},        {"groupby", groupby},   {"items", items},
    {"join", join},          {"last", last},         {"length", count},
    {"list", to_list},       {"max", extreme<true>}, {"min", extreme<false>},
    {"random", random_item}, {"reverse", reverse},   {"slice", slice},
    {"sort", sort},          {"sum", sum},           {"unique", unique},
};

}  // namespace

std::span<const NamedFilter> sequence_filters() { return kFilters; }

}  // namespace mlxcel::text::jinja
