#include "text/grammar/schema_compiler.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "text/grammar/schema.h"
#include "text/grammar/schema_keywords.h"
#include "text/grammar/schema_number.h"
#include "text/grammar/schema_strings.h"

namespace mlxcel::text::grammar {

namespace {

using Expr = GrammarBuilder::Expr;

constexpr const char* kNumberPattern = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?";

}  // namespace

Expr compile_schema(GrammarBuilder& builder, const Json& schema, std::string_view where) {
  return SchemaCompiler(builder, schema, where).run();
}

SchemaCompiler::SchemaCompiler(GrammarBuilder& builder, const Json& schema, std::string_view where)
    : b_(builder),
      impl_(builder.impl()),
      doc_(schema, where),
      maker_(doc_, impl_.limits, [this] { impl_.check_time(); }) {}

Expr SchemaCompiler::run() {
  const Expr root = value({{doc_.root(), true}});
  while (!pending_.empty()) {
    const Literals literals = std::move(pending_.back());
    pending_.pop_back();
    impl_.check_time();
    b_.define(rules_.at(literals), build(literals));
  }
  return root;
}

// A call of the rule for values that satisfy all of `literals`.
Expr SchemaCompiler::value(const Literals& literals) {
  Literals needed;
  for (const Literal& l : literals) {
    const Json& json = *doc_.node(l.node).json;
    // Schemas that every value satisfies add nothing.
    const bool empty = (json.is_bool() && json.as_bool()) || (json.is_object() && json.size() == 0);
    if (!(empty && l.positive)) needed.push_back(l);
  }
  if (needed.empty()) return any_value();
  const auto it = rules_.find(needed);
  if (it != rules_.end()) return b_.call(it->second);
  const auto rule = b_.declare(doc_.node(needed[0].node).place);
  rules_.emplace(needed, rule);
  pending_.push_back(needed);
  return b_.call(rule);
}

const std::vector<Shape>& SchemaCompiler::shapes(const Literals& literals) {
  const auto it = shapes_.find(literals);
  if (it != shapes_.end()) return it->second;
  return shapes_.emplace(literals, maker_.expand(literals)).first->second;
}

Expr SchemaCompiler::build(const Literals& literals) {
  std::vector<Expr> choices;
  for (const Shape& s : shapes(literals)) choices.push_back(shape(s, literals));
  return b_.alt(std::move(choices));
}

Expr SchemaCompiler::string(Dfa quoted) {
  return impl_.terminal({.dfa = std::move(quoted), .text = true});
}

Expr SchemaCompiler::word(std::string text) { return b_.literal(text); }

Expr SchemaCompiler::white() {
  if (!have_white_) {
    // Bounded, so that no model can go on with blanks for ever.
    white_ = b_.regex("( |\\n[ \\t]{0,40})?");
    have_white_ = true;
  }
  return white_;
}

// Every JSON value.
Expr SchemaCompiler::any_value() {
  if (have_any_) return any_;
  const auto rule = b_.declare("value");
  any_ = b_.call(rule);
  have_any_ = true;
  const Expr string = this->string(any_quoted());
  const Expr comma = b_.seq({word(","), white()});
  const Expr member = b_.seq({string, word(":"), white(), any_});
  const Expr members = b_.seq({member, b_.repeat(b_.seq({comma, member}), 0)});
  const Expr items = b_.seq({any_, b_.repeat(b_.seq({comma, any_}), 0)});
  b_.define(rule,
            b_.alt({word("null"), word("true"), word("false"), string, b_.regex(kNumberPattern),
                    b_.seq({word("{"), white(), b_.optional(members), white(), word("}")}),
                    b_.seq({word("["), white(), b_.optional(items), white(), word("]")})}));
  return any_;
}

Expr SchemaCompiler::constant(const Json& v) {
  switch (v.kind()) {
    case Json::Kind::Int:
    case Json::Kind::Real: {
      const Decimal d = decimal_of(v);
      // Long zeros are spelled with an exponent.
      return word(d.integer.size() + d.fraction.size() > 30 ? v.dump() : d.text());
    }
    case Json::Kind::String:
      return word('"' + json_escaped(v.as_string()) + '"');
    case Json::Kind::Array:
    case Json::Kind::Object: {
      const bool array = v.is_array();
      std::vector<Expr> parts{word(array ? "[" : "{"), white()};
      for (size_t i = 0; i < v.size(); ++i) {
        if (i > 0) {
          parts.push_back(word(","));
          parts.push_back(white());
        }
        if (!array) {
          parts.push_back(word('"' + json_escaped(v.as_object()[i].first) + "\":"));
          parts.push_back(white());
        }
        parts.push_back(constant(array ? v.as_array()[i] : v.as_object()[i].second));
      }
      parts.push_back(white());
      parts.push_back(word(array ? "]" : "}"));
      return b_.seq(std::move(parts));
    }
    case Json::Kind::Null:
    case Json::Kind::Bool:
      break;
  }
  return word(v.dump());
}

Expr SchemaCompiler::shape(const Shape& s, const Literals&) {
  if (s.values) return listed(s);
  std::vector<Expr> choices;
  const auto excluded = [&](const Json& v) {
    return std::ranges::any_of(s.excluded, [&](const Json* e) { return same_value(*e, v); });
  };
  if ((s.types & kNull) != 0 && !excluded(Json())) choices.push_back(word("null"));
  if ((s.types & kTrue) != 0 && !excluded(Json(true))) choices.push_back(word("true"));
  if ((s.types & kFalse) != 0 && !excluded(Json(false))) choices.push_back(word("false"));
  if ((s.types & kNumber) != 0) choices.push_back(number_value(s));
  if ((s.types & kString) != 0) choices.push_back(text_value(s));
  if ((s.types & kArray) != 0) choices.push_back(array_value(s));
  if ((s.types & kObject) != 0) choices.push_back(object_value(s));
  return b_.alt(std::move(choices));
}

Expr SchemaCompiler::listed(const Shape& s) {
  std::vector<Expr> choices;
  Shape rest = s;
  rest.values.reset();
  for (const Json* v : *s.values) {
    if (holds(rest, *v)) choices.push_back(constant(*v));
  }
  return b_.alt(std::move(choices));
}

Expr SchemaCompiler::number_value(const Shape& s) {
  if (plain_numbers(s)) return s.integer ? impl_.dfa(all_integers()) : b_.regex(kNumberPattern);
  return impl_.dfa(numbers(s));
}

Expr SchemaCompiler::text_value(const Shape& s) {
  const bool excludes =
      std::ranges::any_of(s.excluded, [](const Json* v) { return v->is_string(); });
  if (!s.texts.empty() || excludes) return string(quoted(texts(s)));
  if (s.max_length >= 0 && s.max_length < s.min_length) return b_.alt({});
  if (s.min_length == 0 && s.max_length < 0) return string(any_quoted());
  const Expr counted =
      impl_.terminal({.kind = Terminal::Kind::Counted,
                      .dfa = any_character(),
                      .min = static_cast<uint32_t>(s.min_length),
                      .max = s.max_length < 0 ? UINT32_MAX : static_cast<uint32_t>(s.max_length),
                      .close = '"',
                      .text = true});
  return b_.seq({word("\""), counted});
}

}  // namespace mlxcel::text::grammar
