// Expressions, from the loosest binding operator to the tightest.
#include "text/jinja_builtins.h"
#include "text/jinja_nesting.h"
#include "text/jinja_parser.h"

namespace mlxcel::text::jinja {

ExprPtr Parser::binary(ExprPtr left, std::string op, ExprPtr right, int line) const {
  ExprPtr expr = node(ExprKind::Binary, line);
  expr->text = std::move(op);
  expr->items.push_back(std::move(left));
  expr->items.push_back(std::move(right));
  return finish(std::move(expr));
}

ExprPtr Parser::expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? condition() : or_expression();
}

ExprPtr Parser::condition() {
  const size_t unknown_before = unknown_.size();
  ExprPtr value = or_expression();
  while (at_name("if")) {
    const int line = take().line;
    ExprPtr expr = node(ExprKind::Cond, line);
    expr->items.push_back(or_expression());
    expr->items.push_back(std::move(value));
    expr->items.push_back(skip_name("else") ? expression() : nullptr);
    value = finish(std::move(expr));
    unknown_.erase(unknown_.begin() + static_cast<ptrdiff_t>(unknown_before),
                   unknown_.end());  // they may never be reached
  }
  return value;
}

ExprPtr Parser::or_expression() {
  ExprPtr left = and_expression();
  while (at_name("or")) {
    ExprPtr expr = node(ExprKind::Or, take().line);
    expr->items.push_back(std::move(left));
    expr->items.push_back(and_expression());
    left = finish(std::move(expr));
  }
  return left;
}

ExprPtr Parser::and_expression() {
  ExprPtr left = not_expression();
  while (at_name("and")) {
    ExprPtr expr = node(ExprKind::And, take().line);
    expr->items.push_back(std::move(left));
    expr->items.push_back(not_expression());
    left = finish(std::move(expr));
  }
  return left;
}

ExprPtr Parser::not_expression() {
  if (!at_name("not")) return comparison();
  const Nesting nesting(*this);
  ExprPtr expr = node(ExprKind::Not, take().line);
  expr->items.push_back(not_expression());
  return finish(std::move(expr));
}

ExprPtr Parser::comparison() {
  ExprPtr first = sum();
  ExprPtr expr;
  while (true) {
    static const std::unordered_map<std::string_view, CompareOp> kOps = {
        {"==", CompareOp::Eq}, {"!=", CompareOp::Ne}, {"<", CompareOp::Lt},
        {"<=", CompareOp::Le}, {">", CompareOp::Gt},  {">=", CompareOp::Ge}};
    CompareOp op = CompareOp::In;
    const int line = current().line;
    if (current().kind == Tok::Operator) {
      const auto found = kOps.find(current().text);
      if (found == kOps.end()) break;
      op = found->second;
      take();
    } else if (at_name("not") && next_token().kind == Tok::Name && next_token().text == "in") {
      op = CompareOp::NotIn;
      take();
      take();
    } else if (!skip_name("in")) {
      break;
    }
    if (expr == nullptr) {
      expr = node(ExprKind::Compare, line);
      expr->items.push_back(std::move(first));
    }
    expr->ops.push_back(op);
    expr->items.push_back(sum());
  }
  return expr == nullptr ? std::move(first) : finish(std::move(expr));
}

ExprPtr Parser::sum() {
  ExprPtr left = concat();
  while (at_operator("+") || at_operator("-")) {
    const Token op = take();
    left = binary(std::move(left), op.text, concat(), op.line);
  }
  return left;
}

ExprPtr Parser::concat() {
  ExprPtr first = product();
  if (!at_operator("~")) return first;
  ExprPtr expr = node(ExprKind::Concat, current().line);
  expr->items.push_back(std::move(first));
  while (skip_operator("~")) expr->items.push_back(product());
  return finish(std::move(expr));
}

ExprPtr Parser::product() {
  ExprPtr left = power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%")) {
    const Token op = take();
    left = binary(std::move(left), op.text, power(), op.line);
  }
  return left;
}

ExprPtr Parser::power() {
  ExprPtr left = unary();
  while (at_operator("**")) {
    const Token op = take();
    left = binary(std::move(left), op.text, unary(), op.line);
  }
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  ExprPtr expr;
  if (at_operator("-") || at_operator("+")) {
    const Token sign = take();
    expr = node(sign.text == "-" ? ExprKind::Neg : ExprKind::Pos, sign.line);
    expr->items.push_back(unary(false));
    expr = finish(std::move(expr));
  } else {
    expr = primary();
  }
  expr = postfix(std::move(expr));
  return with_filter ? filter_expression(std::move(expr)) : std::move(expr);
}

void Parser::use_name(const std::string& name) {
  // Jinja looks through nested bodies too, so an inner mention counts for every body around it.
  for (Scope& scope : scopes_) {
    scope.varargs |= name == "varargs";
    scope.kwargs |= name == "kwargs";
    scope.caller |= name == "caller";
  }
}

ExprPtr Parser::name_or_constant() {
  const Token token = take();
  ExprPtr expr = node(ExprKind::Const, token.line);
  if (token.text == "true" || token.text == "True") {
    expr->constant = true;
  } else if (token.text == "false" || token.text == "False") {
    expr->constant = false;
  } else if (token.text == "none" || token.text == "None") {
    expr->constant = Value::none();
  } else {
    use_name(token.text);
    expr->kind = ExprKind::Name;
    expr->name = intern(token.text);
  }
  return expr;
}

ExprPtr Parser::primary() {
  const int line = current().line;
  switch (current().kind) {
    case Tok::Name:
      return name_or_constant();
    case Tok::String: {
      std::string text;
      while (current().kind == Tok::String) text += take().text;
      ExprPtr expr = node(ExprKind::Const, line);
      expr->constant = make_string(nullptr, std::move(text));
      return expr;
    }
    case Tok::Integer: {
      ExprPtr expr = node(ExprKind::Const, line);
      expr->constant = take().integer;
      return expr;
    }
    case Tok::Float: {
      ExprPtr expr = node(ExprKind::Const, line);
      expr->constant = take().real;
      return expr;
    }
    default:
      break;
  }
  if (skip_operator("(")) {
    ExprPtr expr = tuple(true, {}, true);
    expect_operator(")");
    return expr;
  }
  if (at_operator("[")) return list();
  if (at_operator("{")) return dict();
  error("unexpected '" + describe(current()) + "'");
}

ExprPtr Parser::list() {
  ExprPtr expr = node(ExprKind::List, current().line);
  expect_operator("[");
  while (!at_operator("]")) {
    if (!expr->items.empty()) expect_operator(",");
    if (at_operator("]")) break;
    expr->items.push_back(expression());
  }
  expect_operator("]");
  return finish(std::move(expr));
}

ExprPtr Parser::dict() {
  ExprPtr expr = node(ExprKind::Dict, current().line);
  expect_operator("{");
  while (!at_operator("}")) {
    if (!expr->items.empty()) expect_operator(",");
    if (at_operator("}")) break;
    expr->items.push_back(expression());
    expect_operator(":");
    expr->items.push_back(expression());
  }
  expect_operator("}");
  return finish(std::move(expr));
}

ExprPtr Parser::tuple(bool with_condition, std::string_view end_word, bool parenthesized) {
  ExprPtr expr = node(ExprKind::Tuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!expr->items.empty()) expect_operator(",");
    const bool end = current().kind == Tok::VariableEnd || current().kind == Tok::BlockEnd ||
                     at_operator(")") || (!end_word.empty() && at_name(end_word));
    if (end) break;
    expr->items.push_back(expression(with_condition));
    if (!at_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!expr->items.empty()) return std::move(expr->items.front());
    if (!parenthesized) error("Expected an expression, got '" + describe(current()) + "'");
  }
  return finish(std::move(expr));
}

ExprPtr Parser::postfix(ExprPtr expr) {
  while (true) {
    if (at_operator(".") || at_operator("[")) {
      expr = subscript(std::move(expr));
    } else if (at_operator("(")) {
      expr = call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::filter_expression(ExprPtr expr) {
  while (true) {
    if (at_operator("|")) {
      expr = filter(std::move(expr));
    } else if (at_name("is")) {
      expr = test(std::move(expr));
    } else if (at_operator("(")) {
      expr = call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::subscript(ExprPtr expr) {
  const Token token = take();
  if (token.text == ".") {
    const Token attribute = take();
    if (attribute.kind == Tok::Name) {
      ExprPtr out = node(ExprKind::Attr, token.line);
      out->text = attribute.text;
      out->constant = make_string(nullptr, attribute.text);
      out->items.push_back(std::move(expr));
      return finish(std::move(out));
    }
    if (attribute.kind != Tok::Integer) error("expected name or number", attribute.line);
    ExprPtr out = node(ExprKind::Item, token.line);
    ExprPtr index = node(ExprKind::Const, attribute.line);
    index->constant = attribute.integer;
    out->items.push_back(std::move(expr));
    out->items.push_back(std::move(index));
    return finish(std::move(out));
  }
  ExprPtr key = node(ExprKind::Tuple, token.line);
  while (!at_operator("]")) {
    if (!key->items.empty()) expect_operator(",");
    key->items.push_back(subscribed());
  }
  expect_operator("]");
  ExprPtr out = node(ExprKind::Item, token.line);
  out->items.push_back(std::move(expr));
  out->items.push_back(key->items.size() == 1 ? std::move(key->items[0]) : finish(std::move(key)));
  return finish(std::move(out));
}

ExprPtr Parser::subscribed() {
  const int line = current().line;
  ExprPtr start;
  if (!at_operator(":")) {
    start = expression();
    if (!at_operator(":")) return start;
  }
  take();
  const auto part = [&]() -> ExprPtr {
    if (at_operator(":") || at_operator("]") || at_operator(",")) return nullptr;
    return expression();
  };
  ExprPtr out = node(ExprKind::Slice, line);
  out->items.push_back(std::move(start));
  out->items.push_back(part());
  out->items.push_back(skip_operator(":") ? part() : nullptr);
  return finish(std::move(out));
}

CallArgs Parser::call_args() {
  CallArgs args;
  const int line = current().line;
  const auto ensure = [&](bool ok) {
    if (!ok) error("invalid syntax for function call expression", line);
  };
  expect_operator("(");
  for (bool first = true; !at_operator(")"); first = false) {
    if (!first) {
      expect_operator(",");
      if (at_operator(")")) break;
    }
    if (skip_operator("*")) {
      ensure(args.star == nullptr && args.star_star == nullptr);
      args.star = expression();
    } else if (skip_operator("**")) {
      ensure(args.star_star == nullptr);
      args.star_star = expression();
    } else if (current().kind == Tok::Name && next_token().kind == Tok::Operator &&
               next_token().text == "=") {
      ensure(args.star_star == nullptr);
      std::string key = take().text;
      take();
      args.keyword.emplace_back(std::move(key), expression());
    } else {
      ensure(args.star == nullptr && args.star_star == nullptr && args.keyword.empty());
      args.positional.push_back(expression());
    }
  }
  expect_operator(")");
  return args;
}

ExprPtr Parser::call(ExprPtr expr) {
  ExprPtr out = node(ExprKind::Call, current().line);
  out->items.push_back(std::move(expr));
  out->call = call_args();
  return finish(std::move(out));
}

std::string Parser::dotted_name() {
  std::string name = expect_identifier();
  while (skip_operator(".")) name += "." + expect_identifier();
  return name;
}

ExprPtr Parser::filter(ExprPtr expr, bool start_inline) {
  while (at_operator("|") || start_inline) {
    if (!start_inline) take();
    start_inline = false;
    ExprPtr out = node(ExprKind::Filter, current().line);
    out->text = dotted_name();
    if (find_filter(out->text) == nullptr && conditional_ == 0) {
      unknown_.push_back({"No filter named '" + out->text + "'.", out->line});
    }
    if (at_operator("(")) out->call = call_args();
    out->items.push_back(std::move(expr));
    expr = finish(std::move(out));
  }
  return expr;
}

ExprPtr Parser::test(ExprPtr expr) {
  const int line = take().line;
  const bool negated = skip_name("not");
  ExprPtr out = node(ExprKind::Test, line);
  out->text = dotted_name();
  if (find_test(out->text) == nullptr && conditional_ == 0) {
    unknown_.push_back({"No test named '" + out->text + "'.", line});
  }
  out->items.push_back(std::move(expr));
  const Tok kind = current().kind;
  const bool argument = kind == Tok::Name || kind == Tok::String || kind == Tok::Integer ||
                        kind == Tok::Float || at_operator("[") || at_operator("{");
  if (at_operator("(")) {
    out->call = call_args();
  } else if (argument && !at_any_name({"else", "or", "and"})) {
    if (at_name("is")) error("You cannot chain multiple tests with is");
    out->call.positional.push_back(postfix(primary()));
  }
  out = finish(std::move(out));
  if (!negated) return out;
  ExprPtr inverse = node(ExprKind::Not, line);
  inverse->items.push_back(std::move(out));
  return finish(std::move(inverse));
}

}  // namespace mlxcel::text::jinja
