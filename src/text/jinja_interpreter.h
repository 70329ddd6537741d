// Runs a parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace mlxcel::text::jinja {

/// Variables of one block of the template. Macros keep the scopes they were defined in.
class Scope {
 public:
  Scope(Heap& heap, std::shared_ptr<Scope> parent)
      : parent_(std::move(parent)), charge_(&heap, 128) {}
  void set(int name, Value value);
  const Value* find(int name) const;  // here only
  const Scope* parent() const { return parent_.get(); }
  void clear() { variables_.clear(); }

 private:
  std::vector<std::pair<int, Value>> variables_;
  std::shared_ptr<Scope> parent_;
  Charge charge_;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow : uint8_t { Normal, Break, Continue };

class Interpreter final : public Runtime {
 public:
  /// `context` is an object and outlives the interpreter.
  Interpreter(const Program& program, const Json& context, Heap& heap, int64_t now_unix,
              int max_depth);
  ~Interpreter() override;

  std::string run();
  int line() const { return line_; }  // of what was being evaluated

  // For macros and loops, which call back.
  std::string call_macro(const Stmt& stmt, const ScopePtr& closure, const std::string& name,
                         Args& args);
  std::string loop_body(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int depth0);
  const Program& program() const { return program_; }

 private:
  Flow exec_body(const Body& body, const ScopePtr& scope, TextBuilder& out);
  Flow exec(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  void exec_output(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow exec_set_block(const Stmt& stmt, const ScopePtr& scope);
  Flow exec_filter_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow exec_if(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow exec_for(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int depth0,
                TextBuilder& out);
  Flow exec_with(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  Flow exec_autoescape(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  void exec_call_block(const Stmt& stmt, const ScopePtr& scope, TextBuilder& out);
  std::vector<Value> loop_items(const Stmt& stmt, const ScopePtr& scope, const Value& iterable);
  void assign(const Expr& target, const ScopePtr& scope, const Value& value);
  Value make_macro(const Stmt& stmt, const ScopePtr& scope, const std::string& name);
  void bind_parameters(const Stmt& stmt, const ScopePtr& scope, const std::string& name,
                       Args& args);
  void write(TextBuilder& out, const Value& value);
  Value captured(TextBuilder& text);

  Value eval(const Expr& expr, const ScopePtr& scope);
  Value eval_name(const Expr& expr, const ScopePtr& scope);
  Value eval_list(const Expr& expr, const ScopePtr& scope);
  Value eval_dict(const Expr& expr, const ScopePtr& scope);
  Value eval_concat(const Expr& expr, const ScopePtr& scope);
  Value eval_compare(const Expr& expr, const ScopePtr& scope);
  Value eval_condition(const Expr& expr, const ScopePtr& scope);
  Value eval_item(const Expr& expr, const ScopePtr& scope);
  Value eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller = nullptr);
  Value eval_filter(const Expr& expr, const ScopePtr& scope, const Value* subject = nullptr);
  Value eval_test(const Expr& expr, const ScopePtr& scope);
  Args eval_args(const CallArgs& call, const ScopePtr& scope);
  const Value& global(int name);

  const Program& program_;
  const Json& context_;
  ScopePtr root_;
  std::vector<Value> globals_;  // by name, resolved on first use
  std::vector<bool> global_known_;
  std::vector<ScopePtr> captured_scopes_;
  int line_ = 0;
};

/// A JSON value as a template sees it. Its texts are borrowed, not copied.
Value from_json(Heap& heap, const Json& json, int depth = 0);

}  // namespace mlxcel::text::jinja
