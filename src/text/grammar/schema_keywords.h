// What each keyword of JSON Schema asserts, and what its denial allows.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/grammar/schema_shape.h"

namespace mlxcel::text::grammar {

class KeywordReader {
 public:
  KeywordReader(ShapeMaker& maker, NodeId node);
  /// Steps that all must be taken for the schema to hold.
  ShapeMaker::Alternative assertion();
  /// Alternatives, one of which must be taken for it not to hold. Throws InvalidArgument for a
  /// keyword whose denial cannot be enforced.
  std::vector<ShapeMaker::Alternative> denial();

 private:
  using Step = ShapeMaker::Step;
  using Alternative = ShapeMaker::Alternative;

  void check_keywords() const;
  Literals sub(std::string_view keyword, bool positive = true);
  Literals sub(const Json& json, const std::string& step, bool positive = true);
  const Json* find(std::string_view keyword) const { return json_.find(keyword); }
  int64_t count(const char* keyword) const;
  std::string text(const Json& value, const char* keyword) const;
  const Json::Array& list(const Json& value, const char* keyword) const;
  const Json::Object& map(const Json& value, const char* keyword) const;
  [[noreturn]] void refuse(std::string_view keyword, std::string_view why) const;

  static Step apply(std::function<void(Shape&)> fn);
  static Step literal(Literals one);
  static Step types(uint8_t bits);
  Step choice(std::vector<Alternative> alternatives) const;

  void assert_general(Alternative& out);
  void assert_logic(Alternative& out);
  void assert_number(Alternative& out);
  void assert_string(Alternative& out);
  void assert_array(Alternative& out);
  void assert_object(Alternative& out);
  void deny_general(std::vector<Alternative>& out);
  void deny_logic(std::vector<Alternative>& out);
  void deny_scalar(std::vector<Alternative>& out);
  void deny_array(std::vector<Alternative>& out);
  void deny_object(std::vector<Alternative>& out);
  std::vector<Alternative> one_of();
  std::vector<Alternative> conditional(bool positive);
  /// (key, names it needs) and (key, schema it needs) of dependentRequired, dependentSchemas and
  /// the older dependencies.
  struct Dependency {
    std::string key;
    std::vector<std::string> names;
    Literals schema;
  };
  std::vector<Dependency> dependencies(bool positive);
  Place place(const char* keyword) const { return {node_, keyword}; }

  ShapeMaker& maker_;
  const NodeId node_;
  const Json& json_;
};

/// Types that "type" allows; all without it.
uint8_t possible_types(const Json& schema);
/// The values of "const" or "enum".
std::optional<std::vector<const Json*>> listed_values(const Json& schema);
/// Equality of JSON values: numbers by value, objects without regard to order.
bool same_value(const Json& a, const Json& b);

}  // namespace mlxcel::text::grammar
