// Schemas as alternatives of plain conjunctions: allOf, anyOf, oneOf, not, if and $ref are worked
// out here, so that what is left names one type at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/grammar/builder.h"
#include "text/grammar/schema_doc.h"

namespace mlxcel::text::grammar {

/// A schema that must hold, or must not.
struct Literal {
  NodeId node = 0;
  bool positive = true;
  auto operator<=>(const Literal&) const = default;
};
/// All of them must hold; sorted, without duplicates.
using Literals = std::vector<Literal>;
Literals merged(Literals a, const Literals& b);

enum TypeBit : uint8_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kNumber = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127,
};
TypeBit type_of(const Json& value);

/// A keyword at a schema, for messages.
struct Place {
  NodeId node = 0;
  const char* keyword = "";
};

/// A conjunction. Members only matter for values of their type.
struct Shape {
  struct NumberRule {
    const Json* value;
    const char* keyword;  // minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
    bool positive;
    Place place;
  };
  struct TextRule {
    std::string text;
    bool format;  // else a pattern
    bool positive;
    Place place;
  };
  /// Some key must exist: of those that `node`'s keyword applies to, with a value in `value`.
  struct Witness {
    enum class Kind : uint8_t { Pattern, Additional, Name } kind;
    NodeId node;
    std::string pattern;
    Literals value;  // Name: what the key itself must satisfy
    Place place;
  };
  struct Contains {
    Literals item;
    int64_t min = 1, max = -1;
    size_t from = 0;  // only items from this index on count
    Place place;
  };

  uint8_t types = kAllTypes;
  bool integer = false, fractional = false;
  std::vector<NumberRule> numbers;
  std::vector<TextRule> texts;
  int64_t min_length = 0, max_length = -1;
  std::vector<NodeId> key_groups;  // their properties, patternProperties, additionalProperties
  Literals names;
  std::vector<std::string> required, forbidden;
  std::map<std::string, Literals> key_values;  // further conditions on single keys
  int64_t min_keys = 0, max_keys = -1;
  std::vector<Witness> witnesses;
  std::vector<NodeId> item_groups;  // their prefixItems and items
  std::map<size_t, Literals> item_values;
  std::vector<Contains> contains;
  int64_t min_items = 0, max_items = -1;
  bool unique = false;
  Place unique_place;
  std::optional<std::vector<const Json*>> values;  // enum and const
  std::vector<const Json*> excluded;
};

class ShapeMaker {
 public:
  ShapeMaker(SchemaDoc& doc, const GrammarLimits& limits, std::function<void()> check_time)
      : doc_(doc), limits_(limits), check_time_(std::move(check_time)) {}

  /// The alternatives whose union is the conjunction of `literals`. They may overlap.
  std::vector<Shape> expand(const Literals& literals);

 private:
  friend class KeywordReader;
  struct Step;
  using Alternative = std::vector<Step>;
  /// A condition on a shape, a literal, or a choice between alternatives.
  struct Step {
    std::function<void(Shape&)> apply;
    std::optional<Literal> literal;
    std::vector<Alternative> choice;
  };
  struct Frame {
    Shape shape;
    std::vector<Step> pending;  // the last one is next
    std::vector<Literal> done;
  };
  void run(Frame frame, int depth, std::vector<Shape>& out);
  Alternative assertion(NodeId node);
  std::vector<Alternative> denial(NodeId node);
  bool disjoint(NodeId a, NodeId b, int depth);
  const Json* deref(NodeId& node, int hops);

  SchemaDoc& doc_;
  const GrammarLimits& limits_;
  std::function<void()> check_time_;
  size_t steps_ = 0;
};

}  // namespace mlxcel::text::grammar
