// Methods of lists, tuples, dicts and numbers, and the global functions.
#include <array>
#include <cmath>

#include "text/jinja_objects.h"

namespace mlxcel::text::jinja {

namespace {

Value list_count(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("count", args, {"value"}, 1);
  int64_t n = 0;
  runtime.heap().step(static_cast<int64_t>(self.items().size()));
  for (const Value& item : self.items()) n += equal(item, bound[0]) ? 1 : 0;
  return n;
}

Value list_index(Runtime& runtime, const Value& self, Args& args) {
  const Bound bound("index", args, {"value", "start", "stop"}, 1);
  const auto size = static_cast<int64_t>(self.items().size());
  const auto clip = [&](int64_t i) { return i < 0 ? std::max<int64_t>(0, i + size) : i; };
  const int64_t stop = std::min(clip(bound.integer(2, size)), size);
  for (int64_t i = clip(bound.integer(1, 0)); i < stop; ++i) {
    runtime.heap().step();
    if (equal(self.items()[static_cast<size_t>(i)], bound[0])) return i;
  }
  fail(Fault::Value, to_repr(runtime, bound[0]) + " is not in list");
}

Value list_copy(Runtime&, const Value& self, Args&) { return self; }

Value dict_get(Runtime&, const Value& self, Args& args) {
  const Bound bound("get", args, {"key", "default"}, 1);
  const Value* value = self.as<DictObject>()->find(bound[0]);
  return value == nullptr ? bound[1] : *value;
}

template <DictView::Part part>
Value dict_view(Runtime& runtime, const Value& self, Args&) {
  return {Type::Object, std::make_shared<DictView>(&runtime.heap(), self, part)};
}

Value dict_copy(Runtime&, const Value& self, Args&) { return self; }

Value dict_fromkeys(Runtime& runtime, const Value&, Args& args) {
  DictType type(&runtime.heap());
  Value method;
  type.attribute(runtime, "fromkeys", method);
  return call(runtime, method, args);
}

Value int_bit_length(Runtime&, const Value& self, Args&) {
  const int64_t i = self.integer();
  const uint64_t magnitude =
      i < 0 ? uint64_t{0} - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  return magnitude == 0 ? 0 : 64 - __builtin_clzll(magnitude);
}

Value int_bit_count(Runtime&, const Value& self, Args&) {
  const int64_t i = self.integer();
  return __builtin_popcountll(i < 0 ? uint64_t{0} - static_cast<uint64_t>(i)
                                    : static_cast<uint64_t>(i));
}

Value float_is_integer(Runtime&, const Value& self, Args&) {
  return std::isfinite(self.real()) && std::trunc(self.real()) == self.real();
}

Value number_conjugate(Runtime&, const Value& self, Args&) { return plus(self); }

Value global_range(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("range", args, {"start", "stop", "step"}, 1);
  const bool two = bound.given(1);
  const int64_t start = two ? bound.integer(0, 0) : 0;
  const int64_t stop = two ? bound.integer(1, 0) : bound.integer(0, 0);
  return {Type::Object, std::make_shared<Range>(&runtime.heap(), start, stop, bound.integer(2, 1))};
}

Value global_cycler(Runtime& runtime, const Value&, Args& args) {
  return {Type::Object, std::make_shared<Cycler>(&runtime.heap(), args.positional)};
}

Value global_joiner(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("joiner", args, {"sep"});
  return {Type::Object, std::make_shared<Joiner>(&runtime.heap(),
                                                 bound.given(0) ? bound[0] : runtime.string(", "))};
}

Value global_raise(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  fail(Fault::Raised, to_str(runtime, bound[0]));
}

Value global_strftime(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const std::string_view format = bound.text(0, "");
  runtime.heap().check_string(format.size() * 32);
  return runtime.string(format_time(runtime.now_unix(), format));
}

Value global_namespace(Runtime& runtime, const Value&, Args& args) {
  DictType dict(&runtime.heap());
  const Value attributes = dict.call(runtime, args);
  auto space = std::make_shared<Namespace>(&runtime.heap());
  for (const auto& [key, value] : attributes.as<DictObject>()->entries()) {
    set_attribute(runtime, *space, to_str(runtime, key), value);
  }
  runtime.keep(space);
  return {Type::Object, space};
}

[[noreturn]] Value global_lipsum(Runtime&, const Value&, Args&) {
  fail(Fault::Unsupported, "lipsum() is not available to a chat template");
}

constexpr NamedMethod kListMethods[] = {
    {"copy", list_copy}, {"count", list_count}, {"index", list_index}};
constexpr NamedMethod kDictMethods[] = {{"copy", dict_copy},
                                        {"fromkeys", dict_fromkeys},
                                        {"get", dict_get},
                                        {"items", dict_view<DictView::Part::Items>},
                                        {"keys", dict_view<DictView::Part::Keys>},
                                        {"values", dict_view<DictView::Part::Values>}};
constexpr NamedMethod kIntMethods[] = {
    {"bit_count", int_bit_count}, {"bit_length", int_bit_length}, {"conjugate", number_conjugate}};
constexpr NamedMethod kFloatMethods[] = {{"conjugate", number_conjugate},
                                         {"is_integer", float_is_integer}};
constexpr NamedMethod kGlobals[] = {
    {"cycler", global_cycler},        {"joiner", global_joiner},         {"lipsum", global_lipsum},
    {"namespace", global_namespace},  {"raise_exception", global_raise}, {"range", global_range},
    {"strftime_now", global_strftime}};
constexpr std::array<std::string_view, 8> kListMutators = {"append", "clear", "pop",    "reverse",
                                                           "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 5> kDictMutators = {"clear", "pop", "popitem", "setdefault",
                                                           "update"};

template <class Table>
MethodFn find_in(const Table& table, std::string_view name) {
  for (const NamedMethod& method : table) {
    if (method.name == name) return method.function;
  }
  return nullptr;
}

}  // namespace

void set_attribute(Runtime& runtime, Namespace& space, const std::string& name, Value value) {
  if (name.starts_with('_')) {
    fail(Fault::Security,
         "Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
             repr_string(name) + ". Please rename the attribute.");
  }
  runtime.heap().step();
  space.set(name, std::move(value));
}

MethodFn find_list_method(std::string_view name, bool tuple) {
  return tuple && name == "copy" ? nullptr : find_in(kListMethods, name);
}

MethodFn find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }

MethodFn find_number_method(const Value& number, std::string_view name) {
  return number.is(Type::Float) ? find_in(kFloatMethods, name) : find_in(kIntMethods, name);
}

bool is_mutating_method(const Value& object, std::string_view name) {
  const auto listed = [&](const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return (object.is(Type::List) && listed(kListMutators)) ||
         (object.is_dict() && listed(kDictMutators));
}

Value find_global(Runtime& runtime, std::string_view name) {
  if (name == "dict") return {Type::Object, std::make_shared<DictType>(&runtime.heap())};
  const MethodFn function = find_in(kGlobals, name);
  return function == nullptr ? Value() : make_method(runtime, Value(), name, function);
}

}  // namespace mlxcel::text::jinja
