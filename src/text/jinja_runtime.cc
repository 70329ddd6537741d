#include "text/jinja_runtime.h"

#include "base/utf8.h"
#include "text/jinja_objects.h"

namespace mlxcel::text::jinja {

namespace {

void iterate_string(Runtime& runtime, const Value& value, ListBuilder& out) {
  const std::string_view text = value.text();
  for (size_t at = 0; at < text.size();) {
    const auto length = static_cast<size_t>(utf8::decode(text.substr(at)).length);
    out.push(make_string(&runtime.heap(), std::string(text.substr(at, length)), value.is_markup()));
    at += length;
  }
}

}  // namespace

Runtime::Recursion::Recursion(Runtime& runtime, int cost) : runtime_(runtime), cost_(cost) {
  runtime_.depth_ += cost;
  if (runtime_.depth_ > runtime_.max_depth_) {
    runtime_.depth_ -= cost;
    fail(Fault::Limit, "the template calls itself too deeply");
  }
}

Value ListBuilder::generator() {
  return {Type::Object, std::make_shared<Generator>(&runtime_.heap(), std::move(items_))};
}

void TextBuilder::append(std::string_view text) {
  const size_t size = text_.size() + text.size();
  runtime_.heap().check_string(size);
  if (size > charged_) {
    const size_t more = std::max<size_t>(size - charged_, std::max<size_t>(charged_, 64));
    charge_.add(more);
    charged_ += more;
    runtime_.heap().copied(more);
  }
  text_.append(text);
}

void TextBuilder::repeat(std::string_view text, int64_t count) {
  if (count <= 0 || text.empty()) return;
  const auto times = static_cast<unsigned __int128>(count);
  const unsigned __int128 total = times * text.size() + text_.size();
  runtime_.heap().check_string(total > SIZE_MAX ? SIZE_MAX : static_cast<size_t>(total));
  for (int64_t i = 0; i < count; ++i) append(text);
}

bool truth(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
    case Type::None:
      return false;
    case Type::Bool:
    case Type::Int:
      return value.integer() != 0;
    case Type::Float:
      return value.real() != 0;
    case Type::String:
      return !value.text().empty();
    case Type::List:
    case Type::Tuple:
      return !value.items().empty();
    case Type::Dict:
      return !value.as<DictObject>()->entries().empty();
    case Type::Object:
      return value.object()->truth();
  }
  return false;
}

bool has_length(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
    case Type::String:
    case Type::List:
    case Type::Tuple:
    case Type::Dict:
      return true;
    case Type::Object:
      return value.object()->length() >= 0;
    default:
      return false;
  }
}

int64_t length(Runtime& runtime, const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
      return 0;
    case Type::String:
      runtime.heap().touch(value.text().size());
      return static_cast<int64_t>(value.as<StringObject>()->count());
    case Type::List:
    case Type::Tuple:
      return static_cast<int64_t>(value.items().size());
    case Type::Dict:
      return static_cast<int64_t>(value.as<DictObject>()->entries().size());
    case Type::Object:
      if (value.object()->length() >= 0) return value.object()->length();
      break;
    default:
      break;
  }
  fail(Fault::Type, "object of type '" + type_name(value) + "' has no len()");
}

bool is_iterable(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
    case Type::String:
    case Type::List:
    case Type::Tuple:
    case Type::Dict:
      return true;
    case Type::Object:
      return value.object()->iterable();
    default:
      return false;
  }
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  ListBuilder out(runtime);
  switch (value.type()) {
    case Type::Undefined:
      break;
    case Type::String:
      iterate_string(runtime, value, out);
      break;
    case Type::List:
    case Type::Tuple:
      for (const Value& item : value.items()) out.push(item);
      break;
    case Type::Dict:
      for (const auto& [key, item] : value.as<DictObject>()->entries()) out.push(key);
      break;
    case Type::Object: {
      runtime.heap().step(std::max<int64_t>(1, value.object()->length()));
      value.object()->iterate(runtime, out.items());
      break;
    }
    default:
      fail(Fault::Type, "'" + type_name(value) + "' object is not iterable");
  }
  return std::move(out.items());
}

Value call(Runtime& runtime, const Value& callee, Args& args) {
  runtime.heap().step();
  if (callee.is_undefined()) fail_undefined(callee);
  if (!callee.is(Type::Object) || !callee.object()->callable()) {
    fail(Fault::Type, "'" + type_name(callee) + "' object is not callable");
  }
  return callee.object()->call(runtime, args);
}

Value call_filter(Runtime& runtime, std::string_view name, const Value& subject, Args& args) {
  const FilterFn filter = find_filter(name);
  if (filter == nullptr) fail(Fault::Runtime, "No filter named '" + std::string(name) + "'.");
  runtime.heap().step();
  return filter(runtime, subject, args);
}

bool call_test(Runtime& runtime, std::string_view name, const Value& subject, Args& args) {
  const TestFn test = find_test(name);
  if (test == nullptr) fail(Fault::Runtime, "No test named '" + std::string(name) + "'.");
  runtime.heap().step();
  return test(runtime, subject, args);
}

Bound::Bound(std::string_view function, Args& args, std::initializer_list<std::string_view> params,
             size_t required)
    : function_(function) {
  values_.fill(Value::none());
  const std::string name(function);
  if (args.positional.size() > params.size()) {
    fail(Fault::Type, name + "() takes at most " + std::to_string(params.size()) + " arguments (" +
                          std::to_string(args.positional.size()) + " given)");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    values_[i] = args.positional[i];
    given_[i] = true;
  }
  for (const auto& [key, value] : args.keyword) {
    const auto* const found = std::find(params.begin(), params.end(), key);
    if (found == params.end()) {
      fail(Fault::Type, name + "() got an unexpected keyword argument '" + key + "'");
    }
    const auto i = static_cast<size_t>(found - params.begin());
    if (given_[i]) fail(Fault::Type, name + "() got multiple values for argument '" + key + "'");
    values_[i] = value;
    given_[i] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given_[i]) {
      fail(Fault::Type,
           name + "() missing required argument '" + std::string(params.begin()[i]) + "'");
    }
  }
}

int64_t Bound::integer(size_t i, int64_t fallback) const {
  if (!given_[i]) return fallback;
  if (values_[i].is_undefined()) fail_undefined(values_[i]);
  if (!values_[i].is_integral()) {
    fail(Fault::Type, std::string(function_) + "(): '" + type_name(values_[i]) +
                          "' object cannot be interpreted as an integer");
  }
  return values_[i].integer();
}

bool Bound::flag(size_t i, bool fallback) const { return given_[i] ? truth(values_[i]) : fallback; }

std::string_view Bound::text(size_t i, std::string_view fallback) const {
  if (!given_[i]) return fallback;
  if (!values_[i].is_string()) {
    fail(Fault::Type,
         std::string(function_) + "() argument must be str, not " + type_name(values_[i]));
  }
  return values_[i].text();
}

}  // namespace mlxcel::text::jinja
