// Recursive-descent parser over the tokens of a template; see jinja_ast.h for the tree.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace mlxcel::text::jinja {

class Parser {
 public:
  Parser(std::string_view source, int max_depth);
  std::shared_ptr<const Program> run();

 private:
  class Nesting;  // counts recursion while alive
  struct Scope {  // a function-like body: what its code mentions, and its loops
    bool varargs = false, kwargs = false, caller = false;
    int loops = 0;
  };

  // jinja_parser.cc: tokens and helpers
  const Token& current() const { return tokens_[at_]; }
  const Token& next_token() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take();
  bool at_operator(std::string_view op) const;
  bool at_name(std::string_view word) const;
  bool at_any_name(std::initializer_list<std::string_view> words) const;
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view word);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view word);
  std::string expect_identifier();
  void expect(Tok kind, std::string_view what);
  [[noreturn]] void error(const std::string& message) const;
  [[noreturn]] void error(const std::string& message, int line) const;
  int intern(const std::string& name);
  ExprPtr node(ExprKind kind, int line) const;
  ExprPtr finish(ExprPtr expr) const;  // sets the depth and checks it

  // jinja_parse_expr.cc
  ExprPtr expression(bool with_condition = true);
  ExprPtr condition();
  ExprPtr or_expression();
  ExprPtr and_expression();
  ExprPtr not_expression();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr tuple(bool with_condition = true, std::string_view end_word = {},
                bool parenthesized = false);
  ExprPtr postfix(ExprPtr expr);
  ExprPtr filter_expression(ExprPtr expr);
  ExprPtr subscript(ExprPtr expr);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr expr);
  CallArgs call_args();
  ExprPtr filter(ExprPtr expr, bool start_inline = false);
  ExprPtr test(ExprPtr expr);
  std::string dotted_name();
  ExprPtr binary(ExprPtr left, std::string op, ExprPtr right, int line) const;
  void use_name(const std::string& name);

  // jinja_parse_stmt.cc
  Body statements(std::initializer_list<std::string_view> ends);
  Body block_body(std::initializer_list<std::string_view> ends);
  Body closed_body(std::string_view end);
  StmtPtr statement();
  StmtPtr print_statement(int line);
  StmtPtr set_statement(int line);
  StmtPtr for_statement(int line);
  StmtPtr if_statement(int line);
  StmtPtr with_statement(int line);
  StmtPtr macro_statement(int line);
  StmtPtr call_statement(int line);
  StmtPtr filter_statement(int line);
  StmtPtr generation_statement(int line);
  StmtPtr block_statement(int line);
  StmtPtr autoescape_statement(int line);
  StmtPtr loop_control(StmtKind kind, int line);
  StmtPtr refused_statement(const std::string& word, int line);
  void signature(Signature& out);
  void function_body(Stmt& stmt, std::string_view end);
  ExprPtr target(bool with_tuple, bool with_namespace, std::string_view end_word = {});
  ExprPtr target_item(bool with_namespace);
  [[noreturn]] void unknown_tag(const std::string& word) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::shared_ptr<Program> program_;
  std::unordered_map<std::string, int> name_index_;
  std::vector<Scope> scopes_;
  std::vector<std::string> open_tags_;
  std::vector<std::vector<std::string>> end_words_;
  /// Unknown filters and tests: an error at once unless in a branch that may never run.
  struct Unknown {
    std::string message;
    int line;
  };
  std::vector<Unknown> unknown_;
  int conditional_ = 0;
  int nesting_ = 0;
  int max_depth_;
};

}  // namespace mlxcel::text::jinja
