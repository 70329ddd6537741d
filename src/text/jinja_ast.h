// Syntax tree of a template. Nodes are generic: `kind` says what the children mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace mlxcel::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  Const,  // constant
  Name,   // name
  Tuple,  // items
  List,   // items
  Dict,   // items: key, value, key, value ...
  Not,    // items[0]
  Neg,
  Pos,
  And,  // items[0], items[1]
  Or,
  Binary,        // items[0] text items[1], text = + - * / // % **
  Concat,        // items joined as text
  Compare,       // items[0] ops[0] items[1] ops[1] items[2] ...
  Cond,          // items: test, then, else (may be null)
  Attr,          // items[0] . text
  Item,          // items[0] [ items[1] ]
  Slice,         // items: start, stop, step; each may be null
  Call,          // items[0] called with `call`
  Filter,        // items[0] | text; items[0] is null in a filter block
  Test,          // items[0] is text
  NamespaceRef,  // assignment target: namespace variable `name`, attribute `text`
};

enum class CompareOp : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, In, NotIn };

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr star, star_star;  // *args, **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::Const;
  int line = 0;
  int depth = 1;
  int name = -1;  // index into Program::names
  std::string text;
  Value constant;
  std::vector<ExprPtr> items;
  std::vector<CompareOp> ops;
  CallArgs call;
};

enum class StmtKind : uint8_t {
  Text,         // text
  Output,       // exprs
  Set,          // exprs: target, value
  SetBlock,     // exprs: target, filter chain (may be null); body
  If,           // branches: condition and body; a last one without condition is the else
  For,          // exprs: target, iterable, filter (may be null); body; branches[0] = else
  With,         // exprs: target, value, target, value ...; body
  Macro,        // name, signature, body
  CallBlock,    // exprs[0]: the call; signature and body of the caller
  FilterBlock,  // exprs[0]: filter chain; body
  Generation,   // body
  Block,        // body
  Autoescape,   // exprs[0]; body
  Break,
  Continue,
  Refused,  // text: a statement that needs other templates
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Signature {
  std::vector<int> params;        // indexes into Program::names
  std::vector<ExprPtr> defaults;  // of the last params
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false, declares_caller = false;
};

struct Stmt {
  StmtKind kind = StmtKind::Text;
  int line = 0;
  int name = -1;
  bool recursive = false;
  std::string text;
  std::vector<ExprPtr> exprs;
  std::vector<Branch> branches;
  Body body;
  Signature signature;
};

/// A parsed template. Immutable.
struct Program {
  std::string source;
  std::vector<std::string> names;
  Body body;
  int self_name = -1, loop_name = -1, caller_name = -1, varargs_name = -1, kwargs_name = -1;
};

/// Parses a template. Throws Failure (Syntax with line, Limit).
std::shared_ptr<const Program> parse_program(std::string_view source, int max_depth);

}  // namespace mlxcel::text::jinja
