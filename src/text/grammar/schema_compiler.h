// From shapes to grammar.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "text/grammar/builder_impl.h"
#include "text/grammar/schema_shape.h"

namespace mlxcel::text::grammar {

class SchemaCompiler {
 public:
  using Expr = GrammarBuilder::Expr;
  SchemaCompiler(GrammarBuilder& builder, const Json& schema, std::string_view where);
  Expr run();

 private:
  struct KeyClass {
    Dfa keys;  // insides of strings
    Literals value;
    std::vector<bool> matches;  // per pattern of the object
  };

  // schema_compiler.cc
  Expr value(const Literals& literals);
  Expr build(const Literals& literals);
  Expr shape(const Shape& s, const Literals& all);
  const std::vector<Shape>& shapes(const Literals& literals);
  Expr white();
  Expr constant(const Json& value);
  Expr any_value();
  Expr word(std::string text);
  Expr string(Dfa quoted);
  Expr text_value(const Shape& s);
  Expr number_value(const Shape& s);
  Expr listed(const Shape& s);

  // schema_sets.cc
  Dfa numbers(const Shape& s);
  Dfa texts(const Shape& s);  // inside of strings, canonical
  Dfa key_texts(const Literals& names);
  bool plain_numbers(const Shape& s) const;
  bool holds(const Literals& literals, const Json& v);
  bool holds(const Shape& s, const Json& v);
  bool holds_array(const Shape& s, const Json& v);
  bool holds_object(const Shape& s, const Json& v);
  bool witnessed(const Shape& s, const Shape::Witness& w, const std::string& key);
  bool matches(const std::string& pattern, const std::string& key, const Place& place);
  const Dfa& pattern(const std::string& text, const Place& place);

  // schema_arrays.cc
  Expr array_value(const Shape& s);
  Expr counted_items(const Shape& s);
  Expr distinct_items(const Shape& s);
  Literals item(const Shape& s, size_t index);
  size_t num_prefix(const Shape& s) const;

  // schema_objects.cc
  Expr object_value(const Shape& s);
  Literals key_value(const Shape& s, const std::string& key);
  Literals group_value(NodeId group, const std::string& key);
  std::vector<KeyClass> key_classes(const Shape& s, const std::vector<std::string>& explicit_keys);

  GrammarBuilder& b_;
  GrammarBuilder::Impl& impl_;
  SchemaDoc doc_;
  ShapeMaker maker_;
  std::map<Literals, GrammarBuilder::RuleId> rules_;
  std::vector<Literals> pending_;
  std::map<Literals, std::vector<Shape>> shapes_;
  std::map<std::string, Dfa> patterns_;
  int holds_depth_ = 0;
  size_t finite_limit_ = 0;
  bool have_white_ = false, have_any_ = false;
  Expr white_ = 0, any_ = 0;
};

}  // namespace mlxcel::text::grammar
