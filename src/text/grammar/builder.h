// Builds a grammar from parts: what GBNF, JSON Schema and the grammars of tool calls compile to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace mlxcel::text {

/// Expressions are numbers of nodes; every one is made by this builder. Members throw
/// InvalidArgument or ResourceExhausted.
class GrammarBuilder {
 public:
  using Expr = uint32_t;
  using RuleId = uint32_t;
  static constexpr int32_t kUnbounded = -1;

  explicit GrammarBuilder(const GrammarLimits& limits = {});
  ~GrammarBuilder();

  Expr empty();
  Expr literal(std::string_view bytes);
  Expr seq(std::vector<Expr> parts);
  Expr alt(std::vector<Expr> choices);  // none: matches nothing
  Expr repeat(Expr body, int32_t min, int32_t max = kUnbounded);
  Expr optional(Expr body) { return repeat(body, 0, 1); }
  /// A rule that may be used before it is defined; recursion goes through rules.
  RuleId declare(std::string name);
  void define(RuleId rule, Expr body);
  Expr call(RuleId rule);

  /// A text matching `pattern` as a whole.
  Expr regex(std::string_view pattern);
  /// A JSON text that is valid under `schema`. `where`: prefix of places in error messages.
  Expr json_schema(const Json& schema, std::string_view where = "#");
  /// Any text that contains none of `markers`, special tokens included.
  Expr free_text(std::vector<std::string> markers);
  /// Any text up to and including the first of `markers`.
  Expr free_until(std::vector<std::string> markers);

  std::shared_ptr<const Grammar> build(Expr root);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlxcel::text
