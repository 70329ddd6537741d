// Filters that pick or transform items one by one, and those that pick a value.
#include "text/jinja_filters.h"

namespace mlxcel::text::jinja {

namespace {

Args rest_of(const Args& args, size_t skip) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(skip),
                         args.positional.end());
  rest.keyword = args.keyword;
  return rest;
}

Value map(Runtime& runtime, const Value& subject, Args& args) {
  ListBuilder out(runtime);
  if (!truth(subject)) return out.generator();
  const bool by_attribute = args.positional.empty() && !args.keyword.empty();
  if (by_attribute) {
    const Bound bound("map", args, {"attribute", "default"}, 1);
    const AttributePath path(runtime, bound[0]);
    for (const Value& item : iterate(runtime, subject)) {
      out.push(path.of(runtime, item, bound[1]));
    }
    return out.generator();
  }
  if (args.positional.empty()) fail(Fault::Runtime, "map requires a filter argument");
  const std::string name = to_str(runtime, args.positional[0]);
  const Args rest = rest_of(args, 1);
  for (const Value& item : iterate(runtime, subject)) {
    Args copy = rest;
    out.push(call_filter(runtime, name, item, copy));
  }
  return out.generator();
}

template <bool wanted, bool by_attribute>
Value select(Runtime& runtime, const Value& subject, Args& args) {
  ListBuilder out(runtime);
  if (!truth(subject)) return out.generator();
  if (by_attribute && args.positional.empty()) {
    fail(Fault::Runtime, "Missing parameter for attribute name");
  }
  constexpr size_t kTest = by_attribute ? 1 : 0;
  const AttributePath path(runtime, by_attribute ? args.positional[0] : Value::none());
  const bool has_test = args.positional.size() > kTest;
  const std::string test = has_test ? to_str(runtime, args.positional[kTest]) : std::string();
  const Args rest = has_test ? rest_of(args, kTest + 1) : Args();
  for (const Value& item : iterate(runtime, subject)) {
    const Value value = path.of(runtime, item);
    Args copy = rest;
    const bool passed = has_test ? call_test(runtime, test, value, copy) : truth(value);
    if (passed == wanted) out.push(item);
  }
  return out.generator();
}

Value default_value(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  if (subject.is_undefined() || (bound.flag(1, false) && !truth(subject))) {
    return bound.given(0) ? bound[0] : runtime.string("");
  }
  return subject;
}

Value attr(Runtime& runtime, const Value& subject, Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  const Value name = runtime.string(std::string(bound.text(0, "")));
  if (subject.is_undefined()) fail_undefined(subject);
  // Only attributes, never items: a dict's own keys do not count.
  if (const auto* dict = subject.as<DictObject>(); dict != nullptr) {
    if (find_dict_method(name.text()) == nullptr && !is_mutating_method(subject, name.text())) {
      return runtime.undefined("'dict object' has no attribute " + repr_string(name.text()));
    }
  }
  return get_attribute(runtime, subject, name);
}

constexpr NamedFilter kFilters[] = {
    {"attr", attr},
    {"d", default_value},
    {"default", default_value},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
};

}  // namespace

std::span<const NamedFilter> selection_filters() { return kFilters; }

}  // namespace mlxcel::text::jinja
