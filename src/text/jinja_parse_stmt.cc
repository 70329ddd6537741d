// Statements: everything between {% and %}.
#include <algorithm>

#include "text/jinja_nesting.h"
#include "text/jinja_parser.h"

namespace mlxcel::text::jinja {

namespace {

StmtPtr make(StmtKind kind, int line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

/// Sets a counter for the length of a scope.
class Saved {
 public:
  Saved(int& slot, int value) : slot_(slot), old_(slot) { slot_ = value; }
  ~Saved() { slot_ = old_; }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

 private:
  int& slot_;
  int old_;
};

std::string quoted_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "'" : " or '") + word + "'";
  return out;
}

}  // namespace

Body Parser::statements(std::initializer_list<std::string_view> ends) {
  Body body;
  end_words_.emplace_back(ends.begin(), ends.end());
  while (current().kind != Tok::End) {
    const Token token = take();
    if (token.kind == Tok::Data) {
      StmtPtr text = make(StmtKind::Text, token.line);
      text->text = token.text;
      body.push_back(std::move(text));
    } else if (token.kind == Tok::VariableBegin) {
      StmtPtr output = make(StmtKind::Output, token.line);
      output->exprs.push_back(tuple());
      expect(Tok::VariableEnd, "token 'end of print statement'");
      body.push_back(std::move(output));
    } else if (token.kind == Tok::BlockBegin) {
      if (current().kind == Tok::Name && at_any_name(ends)) {
        end_words_.pop_back();
        return body;
      }
      body.push_back(statement());
      expect(Tok::BlockEnd, "token 'end of statement block'");
    } else {
      error("unexpected '" + describe(token) + "'", token.line);
    }
  }
  if (ends.size() > 0) unknown_tag({});
  end_words_.pop_back();
  return body;
}

Body Parser::block_body(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  skip_operator(":");
  expect(Tok::BlockEnd, "token 'end of statement block'");
  return statements(ends);
}

Body Parser::closed_body(std::string_view end) {
  Body body = block_body({end});
  take();
  return body;
}

void Parser::unknown_tag(const std::string& word) const {
  std::string message =
      word.empty() ? "Unexpected end of template." : "Encountered unknown tag '" + word + "'.";
  const auto& looking_for = end_words_.back();
  const bool misplaced = std::any_of(end_words_.begin(), end_words_.end(), [&](const auto& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  });
  if (!looking_for.empty()) {
    message += misplaced && !word.empty()
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                     "currently looking for " +
                         quoted_list(looking_for) + "."
                   : " Jinja was looking for the following tags: " + quoted_list(looking_for) + ".";
  }
  if (!open_tags_.empty()) {
    message += " The innermost block that needs to be closed is '" + open_tags_.back() + "'.";
  }
  error(message);
}

StmtPtr Parser::statement() {
  if (current().kind != Tok::Name) error("tag name expected");
  const std::string word = current().text;
  using Handler = StmtPtr (Parser::*)(int);
  static const std::unordered_map<std::string_view, Handler> kHandlers = {
      {"print", &Parser::print_statement},
      {"set", &Parser::set_statement},
      {"for", &Parser::for_statement},
      {"if", &Parser::if_statement},
      {"with", &Parser::with_statement},
      {"macro", &Parser::macro_statement},
      {"call", &Parser::call_statement},
      {"filter", &Parser::filter_statement},
      {"block", &Parser::block_statement},
      {"autoescape", &Parser::autoescape_statement},
      {"generation", &Parser::generation_statement}};
  const auto handler = kHandlers.find(word);
  const bool other = word == "break" || word == "continue" || word == "include" ||
                     word == "import" || word == "from" || word == "extends";
  if (handler == kHandlers.end() && !other) unknown_tag(word);
  const int line = take().line;
  open_tags_.push_back(word);
  StmtPtr stmt;
  if (handler != kHandlers.end()) {
    stmt = (this->*handler->second)(line);
  } else if (word == "break" || word == "continue") {
    stmt = loop_control(word == "break" ? StmtKind::Break : StmtKind::Continue, line);
  } else {
    stmt = refused_statement(word, line);
  }
  open_tags_.pop_back();
  return stmt;
}

StmtPtr Parser::print_statement(int line) {
  StmtPtr stmt = make(StmtKind::Output, line);
  while (current().kind != Tok::BlockEnd) {
    if (!stmt->exprs.empty()) expect_operator(",");
    stmt->exprs.push_back(expression());
  }
  return stmt;
}

ExprPtr Parser::target_item(bool with_namespace) {
  if (skip_operator("(")) {
    ExprPtr inner = target(true, with_namespace);
    expect_operator(")");
    return inner;
  }
  const int line = current().line;
  const std::string name = expect_identifier();
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) error("can't assign to '" + name + "'", line);
  }
  const bool reference = with_namespace && at_operator(".");
  ExprPtr expr = node(reference ? ExprKind::NamespaceRef : ExprKind::Name, line);
  expr->name = intern(name);
  if (reference) {
    take();
    expr->text = expect_identifier();
  }
  return expr;
}

ExprPtr Parser::target(bool with_tuple, bool with_namespace, std::string_view end_word) {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr first = target_item(with_namespace);
  if (!with_tuple || !at_operator(",")) return first;
  ExprPtr expr = node(ExprKind::Tuple, line);
  expr->items.push_back(std::move(first));
  while (skip_operator(",")) {
    if (at_operator(")") || at_operator("=") || (!end_word.empty() && at_name(end_word))) break;
    expr->items.push_back(target_item(with_namespace));
  }
  return finish(std::move(expr));
}

StmtPtr Parser::set_statement(int line) {
  StmtPtr stmt = make(StmtKind::Set, line);
  stmt->exprs.push_back(target(true, true));
  if (skip_operator("=")) {
    stmt->exprs.push_back(tuple());
    return stmt;
  }
  stmt->kind = StmtKind::SetBlock;
  stmt->exprs.push_back(filter(nullptr));
  const Saved hard(conditional_, 0);
  stmt->body = closed_body("endset");
  return stmt;
}

StmtPtr Parser::for_statement(int line) {
  StmtPtr stmt = make(StmtKind::For, line);
  const Saved hard(conditional_, 0);
  stmt->exprs.push_back(target(true, false, "in"));
  expect_name("in");
  stmt->exprs.push_back(tuple(false, "recursive"));
  stmt->exprs.push_back(skip_name("if") ? expression() : nullptr);
  stmt->recursive = skip_name("recursive");
  ++scopes_.back().loops;
  stmt->body = block_body({"endfor", "else"});
  --scopes_.back().loops;
  if (take().text == "else") {
    stmt->branches.emplace_back();
    stmt->branches[0].body = closed_body("endfor");
  }
  return stmt;
}

StmtPtr Parser::if_statement(int line) {
  StmtPtr stmt = make(StmtKind::If, line);
  ++conditional_;
  while (true) {
    Branch branch;
    branch.condition = tuple(false);
    branch.body = block_body({"elif", "else", "endif"});
    stmt->branches.push_back(std::move(branch));
    const bool another = current().text == "elif";
    const bool otherwise = current().text == "else";
    take();
    if (another) continue;
    if (otherwise) stmt->branches.push_back({nullptr, closed_body("endif")});
    break;
  }
  --conditional_;
  return stmt;
}

StmtPtr Parser::with_statement(int line) {
  StmtPtr stmt = make(StmtKind::With, line);
  const Saved hard(conditional_, 0);
  while (current().kind != Tok::BlockEnd) {
    if (!stmt->exprs.empty()) expect_operator(",");
    stmt->exprs.push_back(target(false, false));
    expect_operator("=");
    stmt->exprs.push_back(expression());
  }
  stmt->body = closed_body("endwith");
  return stmt;
}

void Parser::signature(Signature& out) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (!out.params.empty()) expect_operator(",");
    const std::string name = expect_identifier();
    if (name == "caller") out.declares_caller = true;
    out.params.push_back(intern(name));
    if (skip_operator("=")) {
      out.defaults.push_back(expression());
    } else if (!out.defaults.empty()) {
      error("non-default argument follows default argument");
    }
  }
  expect_operator(")");
}

void Parser::function_body(Stmt& stmt, std::string_view end) {
  const Saved hard(conditional_, 0);
  scopes_.emplace_back();
  stmt.body = closed_body(end);
  stmt.signature.uses_varargs = scopes_.back().varargs;
  stmt.signature.uses_kwargs = scopes_.back().kwargs;
  stmt.signature.uses_caller = scopes_.back().caller;
  scopes_.pop_back();
}

StmtPtr Parser::macro_statement(int line) {
  StmtPtr stmt = make(StmtKind::Macro, line);
  stmt->name = intern(expect_identifier());
  signature(stmt->signature);
  function_body(*stmt, "endmacro");
  return stmt;
}

StmtPtr Parser::call_statement(int line) {
  StmtPtr stmt = make(StmtKind::CallBlock, line);
  if (at_operator("(")) signature(stmt->signature);
  stmt->exprs.push_back(expression());
  if (stmt->exprs[0]->kind != ExprKind::Call) error("expected call", line);
  function_body(*stmt, "endcall");
  return stmt;
}

StmtPtr Parser::generation_statement(int line) {
  StmtPtr stmt = make(StmtKind::Generation, line);
  function_body(*stmt, "endgeneration");
  return stmt;
}

StmtPtr Parser::filter_statement(int line) {
  StmtPtr stmt = make(StmtKind::FilterBlock, line);
  const Saved hard(conditional_, 0);
  stmt->exprs.push_back(filter(nullptr, true));
  stmt->body = closed_body("endfilter");
  return stmt;
}

StmtPtr Parser::block_statement(int line) {
  StmtPtr stmt = make(StmtKind::Block, line);
  const std::string name = expect_identifier();
  stmt->name = intern(name);
  stmt->recursive = skip_name("scoped");  // a scoped block sees the variables around it
  const bool required = skip_name("required");
  if (at_operator("-")) {
    error(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "
        "use an underscore instead.");
  }
  function_body(*stmt, "endblock");
  if (required) error("Required block '" + name + "' not found", line);
  skip_name(name);
  return stmt;
}

StmtPtr Parser::autoescape_statement(int line) {
  StmtPtr stmt = make(StmtKind::Autoescape, line);
  const Saved hard(conditional_, 0);
  stmt->exprs.push_back(expression());
  stmt->body = closed_body("endautoescape");
  return stmt;
}

StmtPtr Parser::loop_control(StmtKind kind, int line) {
  if (scopes_.back().loops == 0) {
    error(std::string(kind == StmtKind::Break ? "'break'" : "'continue'") + " outside loop", line);
  }
  return make(kind, line);
}

StmtPtr Parser::refused_statement(const std::string& word, int line) {
  StmtPtr stmt = make(StmtKind::Refused, line);
  stmt->text = word;
  while (current().kind != Tok::BlockEnd && current().kind != Tok::End) take();
  return stmt;
}

}  // namespace mlxcel::text::jinja
