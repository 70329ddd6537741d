#include "text/jinja_objects.h"

#include <algorithm>

namespace mlxcel::text::jinja {

namespace {

constexpr int64_t kMaxRange = 100'000;  // the sandbox's limit

Value cycler_next(Runtime&, const Value& self, Args&) { return self.as<Cycler>()->next(); }

Value cycler_reset(Runtime&, const Value& self, Args&) {
  self.as<Cycler>()->reset();
  return Value::none();
}

Value dict_fromkeys(Runtime& runtime, const Value&, Args& args) {
  const Bound bound("fromkeys", args, {"iterable", "value"}, 1);
  auto dict = std::make_shared<DictObject>(&runtime.heap());
  for (const Value& key : iterate(runtime, bound[0])) dict->set(key, bound[1]);
  return {Type::Dict, dict};
}

}  // namespace

void Namespace::set(const std::string& name, Value value) {
  for (auto& [key, current] : entries_) {
    if (key == name) {
      current = std::move(value);
      return;
    }
  }
  charge_.add(name.size() + sizeof(Value) + sizeof(std::string));
  entries_.emplace_back(name, std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Namespace::repr(Runtime& runtime) const {
  TextBuilder out(runtime);
  out.append("<Namespace {");
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(repr_string(entries_[i].first));
    out.append(": ");
    append_repr(runtime, out, entries_[i].second);
  }
  out.append("}>");
  return out.take();
}

bool Namespace::attribute(Runtime&, std::string_view name, Value& out) {
  const Value* value = find(name);
  if (value != nullptr) out = *value;
  return value != nullptr;
}

Generator::Generator(Heap* heap, std::vector<Value> items, std::string type)
    : Object(heap, 64 + items.capacity() * sizeof(Value)),
      items_(std::move(items)),
      type_(std::move(type)) {
  for (const Value& item : items_) contain(item);
}

void Generator::iterate(Runtime&, std::vector<Value>& out) {
  if (out.empty()) {
    out = std::move(items_);
  } else {
    out.insert(out.end(), items_.begin(), items_.end());
  }
  items_.clear();
}

Range::Range(Heap* heap, int64_t start, int64_t stop, int64_t step)
    : Object(heap), start_(start), stop_(stop), step_(step) {
  if (step == 0) fail(Fault::Value, "range() arg 3 must not be zero");
  // In 128 bits nothing can overflow.
  const __int128 span =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) {
    fail(Fault::Overflow,
         "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  }
  count_ = static_cast<int64_t>(count);
}

std::string Range::repr(Runtime&) const {
  std::string out = "range(" + std::to_string(start_) + ", " + std::to_string(stop_);
  if (step_ != 1) out += ", " + std::to_string(step_);
  return out + ")";
}

Value Range::at(Runtime&, int64_t index) const { return start_ + index * step_; }

void Range::iterate(Runtime& runtime, std::vector<Value>& out) {
  for (int64_t i = 0; i < count_; ++i) out.push_back(at(runtime, i));
}

bool Range::contains(int64_t value) const {
  const __int128 offset = static_cast<__int128>(value) - start_;
  return offset % step_ == 0 && offset / step_ >= 0 && offset / step_ < count_;
}

DictView::DictView(Heap* heap, Value dict, Part part)
    : Object(heap), dict_(std::move(dict)), part_(part) {
  contain(dict_);
}

std::string DictView::type_name() const {
  switch (part_) {
    case Part::Keys:
      return "dict_keys";
    case Part::Values:
      return "dict_values";
    default:
      return "dict_items";
  }
}

std::string DictView::repr(Runtime& runtime) const {
  TextBuilder out(runtime);
  out.append(type_name());
  out.append("([");
  bool first = true;
  for (const auto& [key, value] : dict().entries()) {
    if (!first) out.append(", ");
    first = false;
    if (part_ == Part::Items) out.append('(');
    if (part_ != Part::Values) append_repr(runtime, out, key);
    if (part_ == Part::Items) out.append(", ");
    if (part_ != Part::Keys) append_repr(runtime, out, value);
    if (part_ == Part::Items) out.append(')');
  }
  out.append("])");
  return out.take();
}

int64_t DictView::length() const { return static_cast<int64_t>(dict().entries().size()); }

void DictView::iterate(Runtime& runtime, std::vector<Value>& out) {
  for (const auto& [key, value] : dict().entries()) {
    switch (part_) {
      case Part::Keys:
        out.push_back(key);
        break;
      case Part::Values:
        out.push_back(value);
        break;
      default:
        out.push_back(runtime.tuple({key, value}));
    }
  }
}

Method::Method(Heap* heap, Value self, std::string name, MethodFn function)
    : Object(heap), self_(std::move(self)), name_(std::move(name)), function_(function) {
  contain(self_);
}

std::string Method::repr(Runtime&) const { return "<built-in method " + name_ + ">"; }

Value make_method(Runtime& runtime, const Value& self, std::string_view name, MethodFn function) {
  return {Type::Object,
          std::make_shared<Method>(&runtime.heap(), self, std::string(name), function)};
}

Cycler::Cycler(Heap* heap, std::vector<Value> items)
    : Object(heap, 64 + items.capacity() * sizeof(Value)), items_(std::move(items)) {
  if (items_.empty()) fail(Fault::Runtime, "at least one item has to be provided");
  for (const Value& item : items_) contain(item);
}

Value Cycler::next() {
  Value value = items_[position_];
  position_ = (position_ + 1) % items_.size();
  return value;
}

bool Cycler::attribute(Runtime& runtime, std::string_view name, Value& out) {
  if (name == "current") {
    out = items_[position_];
  } else if (name == "pos") {
    out = static_cast<int64_t>(position_);
  } else if (name == "items") {
    out = runtime.tuple(items_);
  } else if (name == "next" || name == "reset") {
    // The object outlives the method: a rendering keeps its objects in values.
    out = make_method(runtime, Value(Type::Object, shared_from_this()), name,
                      name == "next" ? cycler_next : cycler_reset);
  } else {
    return false;
  }
  return true;
}

Joiner::Joiner(Heap* heap, Value separator) : Object(heap), separator_(std::move(separator)) {
  contain(separator_);
}

Value Joiner::call(Runtime& runtime, Args&) {
  if (used_) return separator_;
  used_ = true;
  return runtime.string("");
}

Value DictType::call(Runtime& runtime, Args& args) {
  if (args.positional.size() > 1) {
    fail(Fault::Type,
         "dict expected at most 1 argument, got " + std::to_string(args.positional.size()));
  }
  auto dict = std::make_shared<DictObject>(&runtime.heap());
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (const auto* other = source.as<DictObject>()) {
      for (const auto& [key, value] : other->entries()) dict->set(key, value);
    } else {
      for (const Value& pair : jinja::iterate(runtime, source)) {
        const std::vector<Value> parts = jinja::iterate(runtime, pair);
        if (parts.size() != 2) {
          fail(Fault::Value, "dictionary update sequence element has length " +
                                 std::to_string(parts.size()) + "; 2 is required");
        }
        dict->set(parts[0], parts[1]);
      }
    }
  }
  for (auto& [key, value] : args.keyword) dict->set(runtime.string(key), std::move(value));
  return {Type::Dict, dict};
}

bool DictType::attribute(Runtime& runtime, std::string_view name, Value& out) {
  if (name != "fromkeys") return false;
  out = make_method(runtime, Value(), name, dict_fromkeys);
  return true;
}

}  // namespace mlxcel::text::jinja
