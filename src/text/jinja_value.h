// Values of the template language, with Python's types: everything but namespaces and iterators is
// immutable, as the sandbox demands.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_heap.h"

namespace mlxcel::text::jinja {

class Runtime;
class Value;
struct Args;

enum class Type : uint8_t { Undefined, None, Bool, Int, Float, String, List, Tuple, Dict, Object };

/// What a value refers to. `depth` bounds the recursion of everything that walks values.
class Object : public std::enable_shared_from_this<Object> {
 public:
  explicit Object(Heap* heap, size_t bytes = 64) : charge_(heap, bytes) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  int depth() const { return depth_; }
  /// Counts work on this value; values of the program itself are small and free.
  void step(size_t count) const {
    if (charge_.heap() != nullptr) charge_.heap()->step(static_cast<int64_t>(count));
  }
  /// Notes that `child` is inside; throws Limit when the nesting becomes too deep.
  void contain(const Value& child);

  // Only values of Type::Object answer these.
  virtual std::string type_name() const { return "object"; }
  virtual std::string repr(Runtime&) const { return "<" + type_name() + " object>"; }
  virtual bool callable() const { return false; }
  virtual Value call(Runtime&, Args&);
  /// Null when there is no such attribute.
  virtual bool attribute(Runtime&, std::string_view, Value&) { return false; }
  virtual bool truth() const { return true; }
  virtual bool iterable() const { return false; }
  /// Number of items; negative when len() does not work on it.
  virtual int64_t length() const { return -1; }
  virtual bool indexable() const { return false; }  // has __getitem__ by position
  virtual Value at(Runtime&, int64_t index) const;
  /// Drops what it refers to, so that values that refer to each other can be freed.
  virtual void clear() {}
  /// Appends the items left to iterate over.
  virtual void iterate(Runtime&, std::vector<Value>&);

 protected:
  Charge charge_;

 private:
  int depth_ = 1;
};

using Ref = std::shared_ptr<Object>;

class Value {
 public:
  Value() = default;  // undefined, without a name
  static Value none() { return Value(Type::None); }
  Value(bool b) : type_(Type::Bool) { scalar_.i = b ? 1 : 0; }
  Value(int64_t i) : type_(Type::Int) { scalar_.i = i; }
  Value(int i) : Value(static_cast<int64_t>(i)) {}
  Value(double d) : type_(Type::Float) { scalar_.d = d; }
  Value(const void*) = delete;
  Value(Type type, Ref object) : type_(type), object_(std::move(object)) {}

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::Undefined; }
  bool is_none() const { return type_ == Type::None; }
  bool is_string() const { return type_ == Type::String; }
  bool is_integral() const { return type_ == Type::Int || type_ == Type::Bool; }
  bool is_number() const { return is_integral() || type_ == Type::Float; }
  bool is_list() const { return type_ == Type::List || type_ == Type::Tuple; }
  bool is_dict() const { return type_ == Type::Dict; }

  int64_t integer() const { return scalar_.i; }  // Int and Bool
  double real() const {                          // any number
    return type_ == Type::Float ? scalar_.d : static_cast<double>(scalar_.i);
  }
  std::string_view text() const;            // String
  bool is_markup() const;                   // a String that autoescape leaves alone
  const std::vector<Value>& items() const;  // List and Tuple
  const Ref& object() const { return object_; }
  template <class T>
  T* as() const {
    return dynamic_cast<T*>(object_.get());
  }

 private:
  explicit Value(Type type) : type_(type) {}
  Type type_ = Type::Undefined;
  union {
    int64_t i;
    double d;
  } scalar_{0};
  Ref object_;
};

class StringObject final : public Object {
 public:
  StringObject(Heap* heap, std::string text, bool markup);
  /// Refers to bytes that outlive the rendering.
  StringObject(Heap* heap, std::string_view borrowed);
  std::string_view view() const { return view_; }
  bool markup() const { return markup_; }
  /// Number of code points; counted once.
  size_t count() const;
  bool ascii() const { return count() == view_.size(); }

 private:
  std::string own_;
  std::string_view view_;
  bool markup_ = false;
  size_t length_;
};

class ListObject final : public Object {  // of both List and Tuple
 public:
  ListObject(Heap* heap, std::vector<Value> items, bool group = false);
  const std::vector<Value>& items() const { return items_; }
  bool group() const { return group_; }  // a pair of groupby: also .grouper and .list

 private:
  std::vector<Value> items_;
  bool group_;
};

/// Insertion-ordered; keys compare as in Python (1 == 1.0 == True).
class DictObject final : public Object {
 public:
  using Entry = std::pair<Value, Value>;
  explicit DictObject(Heap* heap) : Object(heap) {}
  /// Only while the dict is being built. Throws Type for an unhashable key.
  void set(Value key, Value value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  ptrdiff_t index_of(const Value& key, size_t hash) const;
  std::vector<Entry> entries_;
  std::vector<size_t> hashes_;
  std::unordered_multimap<size_t, size_t> index_;  // only for larger dicts
};

class UndefinedObject final : public Object {
 public:
  UndefinedObject(Heap* heap, std::string message, Fault fault)
      : Object(heap), message_(std::move(message)), fault_(fault) {}
  const std::string& message() const { return message_; }
  Fault fault() const { return fault_; }

 private:
  std::string message_;
  Fault fault_;
};

/// Positional and keyword arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

Value make_string(Heap* heap, std::string text, bool markup = false);
Value make_list(Heap* heap, std::vector<Value> items);
Value make_tuple(Heap* heap, std::vector<Value> items);
Value make_undefined(Heap* heap, std::string message, Fault fault = Fault::Undefined);
[[noreturn]] void fail_undefined(const Value& value);

/// Throws Type for lists, dicts and other unhashable values.
size_t hash_of(const Value& value);
bool equal(const Value& a, const Value& b);
/// "str", "NoneType", "Undefined" ...
std::string type_name(const Value& value);

}  // namespace mlxcel::text::jinja
