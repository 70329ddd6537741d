#include "text/jinja_parser.h"

#include <algorithm>

namespace mlxcel::text::jinja {

Parser::Parser(std::string_view source, int max_depth)
    : tokens_(tokenize(source)), program_(std::make_shared<Program>()), max_depth_(max_depth) {
  program_->source = std::string(source);
  program_->loop_name = intern("loop");
  program_->caller_name = intern("caller");
  program_->varargs_name = intern("varargs");
  program_->kwargs_name = intern("kwargs");
  program_->self_name = intern("self");
  scopes_.emplace_back();
}

std::shared_ptr<const Program> Parser::run() {
  program_->body = statements({});
  if (!unknown_.empty()) error(unknown_.front().message, unknown_.front().line);
  return program_;
}

Token Parser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::at_operator(std::string_view op) const {
  return current().kind == Tok::Operator && current().text == op;
}
bool Parser::at_name(std::string_view word) const {
  return current().kind == Tok::Name && current().text == word;
}
bool Parser::at_any_name(std::initializer_list<std::string_view> words) const {
  return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return at_name(w); });
}
bool Parser::skip_operator(std::string_view op) {
  if (!at_operator(op)) return false;
  take();
  return true;
}
bool Parser::skip_name(std::string_view word) {
  if (!at_name(word)) return false;
  take();
  return true;
}
void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) {
    error("expected token '" + std::string(op) + "', got '" + describe(current()) + "'");
  }
}
void Parser::expect_name(std::string_view word) {
  if (!skip_name(word)) {
    error("expected token '" + std::string(word) + "', got '" + describe(current()) + "'");
  }
}
std::string Parser::expect_identifier() {
  if (current().kind != Tok::Name) {
    error("expected a name, got '" + describe(current()) + "'");
  }
  return take().text;
}
void Parser::expect(Tok kind, std::string_view what) {
  if (current().kind != kind) {
    error("expected " + std::string(what) + ", got '" + describe(current()) + "'");
  }
  take();
}

void Parser::error(const std::string& message) const { error(message, current().line); }
void Parser::error(const std::string& message, int line) const {
  throw Failure(Fault::Syntax, message, line);
}

int Parser::intern(const std::string& name) {
  const auto [it, added] = name_index_.emplace(name, static_cast<int>(program_->names.size()));
  if (added) program_->names.push_back(name);
  return it->second;
}

ExprPtr Parser::node(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr Parser::finish(ExprPtr expr) const {
  const auto include = [&](const ExprPtr& child) {
    if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
  };
  for (const ExprPtr& item : expr->items) include(item);
  for (const ExprPtr& arg : expr->call.positional) include(arg);
  for (const auto& [key, arg] : expr->call.keyword) include(arg);
  include(expr->call.star);
  include(expr->call.star_star);
  if (expr->depth > 4 * max_depth_) {
    throw Failure(Fault::Limit, "the expression is nested too deeply", expr->line);
  }
  return expr;
}

std::shared_ptr<const Program> parse_program(std::string_view source, int max_depth) {
  return Parser(source, max_depth).run();
}

}  // namespace mlxcel::text::jinja
