// The objects of the language that are neither text, number, list nor dict.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja_builtins.h"

namespace mlxcel::text::jinja {

/// namespace(): attributes that a template may set.
class Namespace final : public Object {
 public:
  using Object::Object;
  void set(const std::string& name, Value value);
  const Value* find(std::string_view name) const;
  void clear() override { entries_.clear(); }
  std::string type_name() const override { return "TemplateNamespace"; }
  std::string repr(Runtime&) const override;
  bool attribute(Runtime&, std::string_view name, Value& out) override;

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

/// The result of map, select and their like: can be walked once.
class Generator final : public Object {
 public:
  Generator(Heap* heap, std::vector<Value> items, std::string type = "generator");
  std::string type_name() const override { return type_; }
  bool iterable() const override { return true; }
  void iterate(Runtime&, std::vector<Value>& out) override;

 private:
  std::vector<Value> items_;
  std::string type_;
};

class Range final : public Object {
 public:
  Range(Heap* heap, int64_t start, int64_t stop, int64_t step);
  std::string type_name() const override { return "range"; }
  std::string repr(Runtime&) const override;
  bool truth() const override { return count_ > 0; }
  bool iterable() const override { return true; }
  int64_t length() const override { return count_; }
  bool indexable() const override { return true; }
  Value at(Runtime&, int64_t index) const override;
  void iterate(Runtime&, std::vector<Value>& out) override;
  bool contains(int64_t value) const;
  int64_t start() const { return start_; }
  int64_t step() const { return step_; }

 private:
  int64_t start_, stop_, step_, count_ = 0;
};

/// dict.keys(), values() and items().
class DictView final : public Object {
 public:
  enum class Part : uint8_t { Keys, Values, Items };
  DictView(Heap* heap, Value dict, Part part);
  std::string type_name() const override;
  std::string repr(Runtime&) const override;
  bool truth() const override { return length() > 0; }
  bool iterable() const override { return true; }
  int64_t length() const override;
  void iterate(Runtime&, std::vector<Value>& out) override;
  Part part() const { return part_; }
  const DictObject& dict() const { return *dict_.as<DictObject>(); }

 private:
  Value dict_;
  Part part_;
};

/// A method of a value, or a global function when `self` is undefined.
class Method final : public Object {
 public:
  Method(Heap* heap, Value self, std::string name, MethodFn function);
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string repr(Runtime&) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override { return function_(runtime, self_, args); }

 private:
  Value self_;
  std::string name_;
  MethodFn function_;
};

class Cycler final : public Object {
 public:
  Cycler(Heap* heap, std::vector<Value> items);
  std::string type_name() const override { return "Cycler"; }
  bool attribute(Runtime&, std::string_view name, Value& out) override;
  Value next();
  void reset() { position_ = 0; }

 private:
  std::vector<Value> items_;
  size_t position_ = 0;
};

class Joiner final : public Object {
 public:
  Joiner(Heap* heap, Value separator);
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime&, Args& args) override;

 private:
  Value separator_;
  bool used_ = false;
};

/// The `dict` global: callable, with fromkeys.
class DictType final : public Object {
 public:
  using Object::Object;
  std::string type_name() const override { return "TemplateDict"; }
  bool callable() const override { return true; }
  Value call(Runtime&, Args& args) override;
  bool attribute(Runtime&, std::string_view name, Value& out) override;
};

/// `space.name = value` with the sandbox's rule on names.
void set_attribute(Runtime& runtime, Namespace& space, const std::string& name, Value value);

Value make_method(Runtime& runtime, const Value& self, std::string_view name, MethodFn function);

}  // namespace mlxcel::text::jinja
