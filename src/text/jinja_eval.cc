// Evaluation of expressions.
#include "text/jinja_builtins.h"
#include "text/jinja_interpreter.h"

namespace mlxcel::text::jinja {

Value Interpreter::eval(const Expr& expr, const ScopePtr& scope) {
  const Recursion recursion(*this);
  heap().step();
  switch (expr.kind) {
    case ExprKind::Const:
      return expr.constant;
    case ExprKind::Name:
      return eval_name(expr, scope);
    case ExprKind::Tuple:
    case ExprKind::List:
      return eval_list(expr, scope);
    case ExprKind::Dict:
      return eval_dict(expr, scope);
    case ExprKind::Not:
      return !truth(eval(*expr.items[0], scope));
    case ExprKind::And: {
      Value left = eval(*expr.items[0], scope);
      return truth(left) ? eval(*expr.items[1], scope) : left;
    }
    case ExprKind::Or: {
      Value left = eval(*expr.items[0], scope);
      return truth(left) ? left : eval(*expr.items[1], scope);
    }
    case ExprKind::Concat:
      return eval_concat(expr, scope);
    case ExprKind::Compare:
      return eval_compare(expr, scope);
    case ExprKind::Cond:
      return eval_condition(expr, scope);
    case ExprKind::Item:
      return eval_item(expr, scope);
    case ExprKind::Call:
      return eval_call(expr, scope);
    case ExprKind::Filter:
      return eval_filter(expr, scope);
    case ExprKind::Test:
      return eval_test(expr, scope);
    default:
      break;
  }
  const Value first = expr.items[0] == nullptr ? Value::none() : eval(*expr.items[0], scope);
  switch (expr.kind) {
    case ExprKind::Neg:
      line_ = expr.line;
      return negate(first);
    case ExprKind::Pos:
      line_ = expr.line;
      return plus(first);
    case ExprKind::Attr:
      line_ = expr.line;
      return get_attribute(*this, first, expr.constant);
    case ExprKind::Binary: {
      const Value second = eval(*expr.items[1], scope);
      line_ = expr.line;
      return binary(*this, expr.text, first, second);
    }
    default:
      break;
  }
  fail(Fault::Type, "a slice can only stand alone between brackets");
}

Value Interpreter::eval_name(const Expr& expr, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent()) {
    heap().step();
    if (const Value* value = at->find(expr.name)) return *value;
  }
  return global(expr.name);
}

Value Interpreter::eval_list(const Expr& expr, const ScopePtr& scope) {
  ListBuilder out(*this);
  for (const ExprPtr& item : expr.items) out.push(eval(*item, scope));
  return expr.kind == ExprKind::List ? out.list() : out.tuple();
}

Value Interpreter::eval_dict(const Expr& expr, const ScopePtr& scope) {
  auto dict = std::make_shared<DictObject>(&heap());
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    Value key = eval(*expr.items[i], scope);
    dict->set(std::move(key), eval(*expr.items[i + 1], scope));
  }
  return {Type::Dict, dict};
}

Value Interpreter::eval_concat(const Expr& expr, const ScopePtr& scope) {
  ListBuilder parts(*this);
  bool markup = false;
  for (const ExprPtr& item : expr.items) {
    parts.push(eval(*item, scope));
    markup |= autoescape() && parts.items().back().is_markup();
  }
  TextBuilder out(*this);
  for (const Value& part : parts.items()) {
    append_str(*this, out, markup ? escape(*this, part) : part);
  }
  return make_string(&heap(), out.take(), markup);
}

Value Interpreter::eval_compare(const Expr& expr, const ScopePtr& scope) {
  Value left = eval(*expr.items[0], scope);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = eval(*expr.items[i + 1], scope);
    line_ = expr.line;
    bool holds = false;
    switch (expr.ops[i]) {
      case CompareOp::Eq:
        holds = equal(left, right);
        break;
      case CompareOp::Ne:
        holds = !equal(left, right);
        break;
      case CompareOp::Lt:
        holds = ordered(*this, left, right, "<");
        break;
      case CompareOp::Le:
        holds = ordered(*this, left, right, "<=");
        break;
      case CompareOp::Gt:
        holds = ordered(*this, left, right, ">");
        break;
      case CompareOp::Ge:
        holds = ordered(*this, left, right, ">=");
        break;
      case CompareOp::In:
        holds = contains(*this, right, left);
        break;
      case CompareOp::NotIn:
        holds = !contains(*this, right, left);
        break;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval_condition(const Expr& expr, const ScopePtr& scope) {
  if (truth(eval(*expr.items[0], scope))) return eval(*expr.items[1], scope);
  if (expr.items[2] != nullptr) return eval(*expr.items[2], scope);
  return undefined("the inline if-expression on line " + std::to_string(expr.line) +
                   " evaluated to false and no else section was defined.");
}

Value Interpreter::eval_item(const Expr& expr, const ScopePtr& scope) {
  const Value object = eval(*expr.items[0], scope);
  const Expr& key = *expr.items[1];
  if (key.kind != ExprKind::Slice) {
    const Value index = eval(key, scope);
    line_ = expr.line;
    return get_item(*this, object, index);
  }
  const auto part = [&](size_t i) {
    return key.items[i] == nullptr ? Value::none() : eval(*key.items[i], scope);
  };
  const Value start = part(0), stop = part(1), step = part(2);
  line_ = expr.line;
  return get_slice(*this, object, start, stop, step);
}

Args Interpreter::eval_args(const CallArgs& call, const ScopePtr& scope) {
  Args args;
  for (const ExprPtr& arg : call.positional) args.positional.push_back(eval(*arg, scope));
  for (const auto& [key, arg] : call.keyword) args.keyword.emplace_back(key, eval(*arg, scope));
  if (call.star != nullptr) {
    for (Value& value : iterate(*this, eval(*call.star, scope))) {
      args.positional.push_back(std::move(value));
    }
  }
  if (call.star_star != nullptr) {
    const Value extra = eval(*call.star_star, scope);
    const auto* dict = extra.as<DictObject>();
    if (dict == nullptr) {
      fail(Fault::Type, "argument after ** must be a mapping, not " + type_name(extra));
    }
    for (const auto& [key, value] : dict->entries()) {
      if (!key.is_string()) fail(Fault::Type, "keywords must be strings");
      args.keyword.emplace_back(std::string(key.text()), value);
    }
  }
  return args;
}

Value Interpreter::eval_call(const Expr& expr, const ScopePtr& scope, const Value* caller) {
  const Value callee = eval(*expr.items[0], scope);
  Args args = eval_args(expr.call, scope);
  if (caller != nullptr) args.keyword.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(*this, callee, args);
}

Value Interpreter::eval_filter(const Expr& expr, const ScopePtr& scope, const Value* subject) {
  const Recursion recursion(*this);
  Value value;
  if (expr.items[0] == nullptr) {
    value = *subject;
  } else if (subject != nullptr && expr.items[0]->kind == ExprKind::Filter) {
    value = eval_filter(*expr.items[0], scope, subject);
  } else {
    value = eval(*expr.items[0], scope);
  }
  Args args = eval_args(expr.call, scope);
  line_ = expr.line;
  return call_filter(*this, expr.text, value, args);
}

Value Interpreter::eval_test(const Expr& expr, const ScopePtr& scope) {
  const Value value = eval(*expr.items[0], scope);
  Args args = eval_args(expr.call, scope);
  line_ = expr.line;
  return call_test(*this, expr.text, value, args);
}

}  // namespace mlxcel::text::jinja
