#include "text/jinja_value.h"

#include <cmath>

#include "base/utf8.h"

namespace mlxcel::text::jinja {

namespace {

constexpr int kMaxNesting = 200;  // of values inside values
constexpr size_t kUncounted = SIZE_MAX;
constexpr size_t kIndexAbove = 8;  // entries from which a dict hashes its keys

size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15U + (seed << 6) + (seed >> 2));
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is(Type::Float) && b.is(Type::Float)) return a.real() == b.real();
  // An integer beyond 2^53 must not be rounded to meet the float.
  const double d = a.is(Type::Float) ? a.real() : b.real();
  const int64_t i = a.is(Type::Float) ? b.integer() : a.integer();
  return d >= -0x1p63 && d < 0x1p63 && std::trunc(d) == d && static_cast<int64_t>(d) == i;
}

bool equal_lists(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const DictObject& a, const DictObject& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

void Object::contain(const Value& child) {
  if (child.object() == nullptr || child.object()->depth_ < depth_) return;
  depth_ = child.object()->depth_ + 1;
  if (depth_ > kMaxNesting) {
    fail(Fault::Limit,
         "the template nests values more than " + std::to_string(kMaxNesting) + " levels deep");
  }
}

Value Object::call(Runtime&, Args&) {
  fail(Fault::Type, "'" + type_name() + "' object is not callable");
}
Value Object::at(Runtime&, int64_t) const {
  fail(Fault::Type, "'" + type_name() + "' object is not subscriptable");
}
void Object::iterate(Runtime&, std::vector<Value>&) {
  fail(Fault::Type, "'" + type_name() + "' object is not iterable");
}

std::string_view Value::text() const {
  return static_cast<const StringObject*>(object_.get())->view();
}
bool Value::is_markup() const {
  return is_string() && static_cast<const StringObject*>(object_.get())->markup();
}
const std::vector<Value>& Value::items() const {
  return static_cast<const ListObject*>(object_.get())->items();
}

StringObject::StringObject(Heap* heap, std::string text, bool markup)
    : Object(heap, sizeof(StringObject) + text.size()),
      own_(std::move(text)),
      view_(own_),
      markup_(markup),
      length_(kUncounted) {
  if (heap == nullptr) length_ = utf8::count(view_);  // shared by threads: never written later
}

StringObject::StringObject(Heap* heap, std::string_view borrowed)
    : Object(heap, sizeof(StringObject)), view_(borrowed), length_(kUncounted) {}

size_t StringObject::count() const {
  if (length_ == kUncounted) const_cast<StringObject*>(this)->length_ = utf8::count(view_);
  return length_;
}

ListObject::ListObject(Heap* heap, std::vector<Value> items, bool group)
    : Object(heap, sizeof(ListObject) + items.capacity() * sizeof(Value)),
      items_(std::move(items)),
      group_(group) {
  for (const Value& item : items_) contain(item);
}

void DictObject::set(Value key, Value value) {
  const size_t hash = hash_of(key);
  const ptrdiff_t at = index_of(key, hash);
  contain(key);
  contain(value);
  if (at >= 0) {
    entries_[static_cast<size_t>(at)].second = std::move(value);
    return;
  }
  charge_.add(sizeof(Entry) + 4 * sizeof(size_t));
  entries_.emplace_back(std::move(key), std::move(value));
  hashes_.push_back(hash);
  if (entries_.size() == kIndexAbove + 1) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(hashes_[i], i);
  } else if (entries_.size() > kIndexAbove) {
    index_.emplace(hash, entries_.size() - 1);
  }
}

ptrdiff_t DictObject::index_of(const Value& key, size_t hash) const {
  if (entries_.size() > kIndexAbove) {
    const auto [first, last] = index_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (equal(entries_[it->second].first, key)) return static_cast<ptrdiff_t>(it->second);
    }
    return -1;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (hashes_[i] == hash && equal(entries_[i].first, key)) return static_cast<ptrdiff_t>(i);
  }
  return -1;
}

const Value* DictObject::find(const Value& key) const {
  const ptrdiff_t at = index_of(key, hash_of(key));
  return at < 0 ? nullptr : &entries_[static_cast<size_t>(at)].second;
}

const Value* DictObject::find(std::string_view key) const {
  const size_t hash = std::hash<std::string_view>{}(key);
  const auto matches = [&](size_t i) {
    return hashes_[i] == hash && entries_[i].first.is_string() && entries_[i].first.text() == key;
  };
  if (entries_.size() > kIndexAbove) {
    const auto [first, last] = index_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (matches(it->second)) return &entries_[it->second].second;
    }
    return nullptr;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (matches(i)) return &entries_[i].second;
  }
  return nullptr;
}

Value make_string(Heap* heap, std::string text, bool markup) {
  if (heap != nullptr) {
    heap->check_string(text.size());
    heap->copied(text.size());
  }
  return {Type::String, std::make_shared<StringObject>(heap, std::move(text), markup)};
}

Value make_list(Heap* heap, std::vector<Value> items) {
  return {Type::List, std::make_shared<ListObject>(heap, std::move(items))};
}

Value make_tuple(Heap* heap, std::vector<Value> items) {
  return {Type::Tuple, std::make_shared<ListObject>(heap, std::move(items))};
}

Value make_undefined(Heap* heap, std::string message, Fault fault) {
  return {Type::Undefined, std::make_shared<UndefinedObject>(heap, std::move(message), fault)};
}

void fail_undefined(const Value& value) {
  if (const auto* undefined = value.as<UndefinedObject>()) {
    fail(undefined->fault(), undefined->message());
  }
  fail(Fault::Undefined, "the value is undefined");
}

size_t hash_of(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
      return 0x51ed27;
    case Type::None:
      return 0x2f0b1d;
    case Type::Bool:
    case Type::Int:
      return std::hash<int64_t>{}(value.integer());
    case Type::Float: {
      const double d = value.real();
      if (d >= -0x1p63 && d < 0x1p63 && std::trunc(d) == d) {
        return std::hash<int64_t>{}(static_cast<int64_t>(d));
      }
      return std::hash<double>{}(d);
    }
    case Type::String:
      value.object()->step(value.text().size() / 256);
      return std::hash<std::string_view>{}(value.text());
    case Type::Tuple: {
      value.object()->step(1 + value.items().size());
      size_t hash = 0x345678;
      for (const Value& item : value.items()) hash = mix(hash, hash_of(item));
      return hash;
    }
    case Type::Object:
      return std::hash<const void*>{}(value.object().get());
    case Type::List:
    case Type::Dict:
      break;
  }
  fail(Fault::Type, "unhashable type: '" + type_name(value) + "'");
}

bool equal(const Value& a, const Value& b) {
  // Shared parts are compared again and again, so the work must be counted where it happens.
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::Undefined:
    case Type::None:
      return true;
    case Type::String:
      if (a.text().size() != b.text().size()) return false;
      a.object()->step(a.text().size() / 256);
      return a.text() == b.text();
    case Type::List:
    case Type::Tuple:
      a.object()->step(1 + a.items().size());
      return a.object() == b.object() || equal_lists(a.items(), b.items());
    case Type::Dict:
      a.object()->step(1 + a.as<DictObject>()->entries().size());
      return a.object() == b.object() || equal_dicts(*a.as<DictObject>(), *b.as<DictObject>());
    default:
      return a.object() == b.object();
  }
}

std::string type_name(const Value& value) {
  switch (value.type()) {
    case Type::Undefined:
      return "Undefined";
    case Type::None:
      return "NoneType";
    case Type::Bool:
      return "bool";
    case Type::Int:
      return "int";
    case Type::Float:
      return "float";
    case Type::String:
      return value.is_markup() ? "Markup" : "str";
    case Type::List:
      return "list";
    case Type::Tuple:
      return "tuple";
    case Type::Dict:
      return "dict";
    case Type::Object:
      return value.object()->type_name();
  }
  return "object";
}

}  // namespace mlxcel::text::jinja
