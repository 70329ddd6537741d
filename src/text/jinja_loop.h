// The objects that call back into the interpreter: macros and the `loop` variable.
#pragma once

#include <string>
#include <vector>

#include "text/jinja_interpreter.h"

namespace mlxcel::text::jinja {

class Macro final : public Object {
 public:
  /// An empty name is that of a call block's body.
  Macro(Interpreter& interpreter, const Stmt& stmt, ScopePtr closure, std::string name);
  std::string type_name() const override { return "Macro"; }
  std::string repr(Runtime&) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override;
  bool attribute(Runtime& runtime, std::string_view name, Value& out) override;

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  ScopePtr closure_;
  std::string name_;
};

class Loop final : public Object {
 public:
  Loop(Interpreter& interpreter, const Stmt& stmt, ScopePtr scope, std::vector<Value> items,
       int depth0);
  size_t size() const { return items_.size(); }
  size_t index() const { return index_; }
  const Value& current() const { return items_[index_]; }
  void advance() { ++index_; }

  std::string type_name() const override { return "LoopContext"; }
  std::string repr(Runtime&) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override;  // recursive loops
  bool attribute(Runtime& runtime, std::string_view name, Value& out) override;
  bool truth() const override { return !items_.empty(); }
  int64_t length() const override { return static_cast<int64_t>(items_.size()); }
  void clear() override { last_changed_ = {}; }

  Value cycle(const std::vector<Value>& values) const;
  Value changed(Runtime& runtime, const std::vector<Value>& values);

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  ScopePtr scope_;
  std::vector<Value> items_;
  size_t index_ = 0;
  int depth0_;
  Value last_changed_;
};

}  // namespace mlxcel::text::jinja
