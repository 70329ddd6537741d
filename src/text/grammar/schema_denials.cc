// What values look like that fail a schema: for "not", "oneOf" and "if".
#include <fmt/core.h>

#include "text/grammar/schema_keywords.h"

namespace mlxcel::text::grammar {

namespace {

constexpr uint8_t without(uint8_t bits) { return static_cast<uint8_t>(kAllTypes & ~bits); }

}  // namespace

std::vector<ShapeMaker::Alternative> KeywordReader::denial() {
  std::vector<Alternative> out;
  if (json_.is_bool()) {
    if (!json_.as_bool()) out.push_back({types(kAllTypes)});
    return out;
  }
  deny_general(out);
  deny_logic(out);
  deny_scalar(out);
  deny_array(out);
  deny_object(out);
  return out;
}

void KeywordReader::deny_general(std::vector<Alternative>& out) {
  if (const Json* type = find("type")) {
    const uint8_t bits = possible_types(json_);
    out.push_back({types(without(bits))});
    bool integer = type->is_string() && type->as_string() == "integer";
    if (type->is_array()) {
      for (const Json& t : type->as_array()) {
        integer = integer || (t.is_string() && t.as_string() == "integer");
      }
      for (const Json& t : type->as_array()) {
        if (t.is_string() && t.as_string() == "number") integer = false;
      }
    }
    if (integer) {
      out.push_back({types(kNumber), apply([](Shape& s) { s.fractional = true; })});
    }
  }
  for (const char* k : {"const", "enum"}) {
    const Json* v = find(k);
    if (v == nullptr) continue;
    std::vector<const Json*> values;
    if (std::string_view(k) == "const") {
      values.push_back(v);
    } else {
      for (const Json& value : list(*v, k)) values.push_back(&value);
    }
    out.push_back({apply([values](Shape& s) {
      s.excluded.insert(s.excluded.end(), values.begin(), values.end());
    })});
  }
}

void KeywordReader::deny_logic(std::vector<Alternative>& out) {
  if (const Json* ref = find("$ref")) {
    out.push_back({literal({{maker_.doc_.resolve(node_, text(*ref, "$ref")), false}})});
  }
  if (const Json* all = find("allOf")) {
    const Json::Array& parts = list(*all, "allOf");
    for (size_t i = 0; i < parts.size(); ++i) {
      out.push_back({literal(sub(parts[i], fmt::format("allOf/{}", i), false))});
    }
  }
  if (const Json* any = find("anyOf")) {
    Alternative none;
    const Json::Array& parts = list(*any, "anyOf");
    for (size_t i = 0; i < parts.size(); ++i) {
      none.push_back(literal(sub(parts[i], fmt::format("anyOf/{}", i), false)));
    }
    out.push_back(std::move(none));
  }
  if (const Json* one = find("oneOf")) {
    // None holds, or two do.
    const Json::Array& parts = list(*one, "oneOf");
    Alternative none;
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < parts.size(); ++i) {
      none.push_back(literal(sub(parts[i], fmt::format("oneOf/{}", i), false)));
      nodes.push_back(none.back().literal->node);
    }
    out.push_back(std::move(none));
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (size_t j = i + 1; j < nodes.size(); ++j) {
        if (maker_.disjoint(nodes[i], nodes[j], 0)) continue;
        out.push_back({literal({{nodes[i], true}}), literal({{nodes[j], true}})});
      }
    }
  }
  if (find("not") != nullptr) out.push_back({literal(sub("not", true))});
  if (find("if") != nullptr) {
    for (Alternative& a : conditional(false)) out.push_back(std::move(a));
  }
}

void KeywordReader::deny_scalar(std::vector<Alternative>& out) {
  Alternative numbers;
  assert_number(numbers);
  for (Step& s : numbers) {
    Shape probe;
    s.apply(probe);
    Shape::NumberRule rule = probe.numbers.at(0);
    rule.positive = false;
    out.push_back({types(kNumber), apply([rule](Shape& shape) { shape.numbers.push_back(rule); })});
  }
  if (find("minLength") != nullptr && count("minLength") > 0) {
    out.push_back({types(kString), apply([n = count("minLength") - 1](Shape& s) {
                     s.max_length = s.max_length < 0 ? n : std::min(s.max_length, n);
                   })});
  }
  if (find("maxLength") != nullptr) {
    out.push_back({types(kString), apply([n = count("maxLength") + 1](Shape& s) {
                     s.min_length = std::max(s.min_length, n);
                   })});
  }
  for (const char* k : {"pattern", "format"}) {
    const Json* v = find(k);
    if (v == nullptr) continue;
    const bool format = std::string_view(k) == "format";
    out.push_back({types(kString), apply([t = text(*v, k), format, p = place(k)](Shape& s) {
                     s.texts.push_back({t, format, false, p});
                   })});
  }
}

void KeywordReader::deny_array(std::vector<Alternative>& out) {
  const auto at_index = [&](size_t index, const Literals& value) {
    out.push_back({types(kArray), apply([index, value](Shape& s) {
                     s.min_items = std::max(s.min_items, static_cast<int64_t>(index) + 1);
                     s.item_values[index] = merged(s.item_values[index], value);
                   })});
  };
  const Json* items = find("items");
  const Json* prefix = find("prefixItems");
  const bool old_form = items != nullptr && items->is_array();
  if (old_form) prefix = items;
  size_t num_prefix = 0;
  if (prefix != nullptr) {
    const char* k = old_form ? "items" : "prefixItems";
    for (const Json& item : list(*prefix, k)) {
      at_index(num_prefix, sub(item, fmt::format("{}/{}", k, num_prefix), false));
      ++num_prefix;
    }
  }
  const char* rest = old_form ? "additionalItems" : "items";
  if (find(rest) != nullptr) {
    Shape::Contains bad{.item = sub(rest, false), .from = num_prefix, .place = place("items")};
    out.push_back({types(kArray), apply([bad](Shape& s) { s.contains.push_back(bad); })});
  }
  if (find("contains") != nullptr) {
    const int64_t min = find("minContains") != nullptr ? count("minContains") : 1;
    const Literals item = sub("contains");
    const auto number_of = [&](int64_t lo, int64_t hi) {
      const Shape::Contains c{.item = item, .min = lo, .max = hi, .place = place("contains")};
      out.push_back({types(kArray), apply([c](Shape& s) { s.contains.push_back(c); })});
    };
    if (min > 0) number_of(0, min - 1);
    if (find("maxContains") != nullptr) number_of(count("maxContains") + 1, -1);
  }
  if (find("minItems") != nullptr && count("minItems") > 0) {
    out.push_back({types(kArray), apply([n = count("minItems") - 1](Shape& s) {
                     s.max_items = s.max_items < 0 ? n : std::min(s.max_items, n);
                   })});
  }
  if (find("maxItems") != nullptr) {
    out.push_back({types(kArray), apply([n = count("maxItems") + 1](Shape& s) {
                     s.min_items = std::max(s.min_items, n);
                   })});
  }
  const Json* unique = find("uniqueItems");
  if (unique != nullptr && unique->is_bool() && unique->as_bool()) {
    refuse("uniqueItems", "that items must repeat (below not, oneOf or if) cannot be enforced");
  }
}

void KeywordReader::deny_object(std::vector<Alternative>& out) {
  if (const Json* properties = find("properties")) {
    for (const auto& [key, value] : map(*properties, "properties")) {
      const Literals bad = sub(value, "properties/" + key, false);
      out.push_back({types(kObject), apply([key = key, bad](Shape& s) {
                       s.required.push_back(key);
                       s.key_values[key] = merged(s.key_values[key], bad);
                     })});
    }
  }
  const auto witness = [&](Shape::Witness w) {
    out.push_back({types(kObject), apply([w](Shape& s) { s.witnesses.push_back(w); })});
  };
  if (const Json* patterns = find("patternProperties")) {
    for (const auto& [pattern, value] : map(*patterns, "patternProperties")) {
      witness({.kind = Shape::Witness::Kind::Pattern,
               .node = node_,
               .pattern = pattern,
               .value = sub(value, "patternProperties/" + pattern, false),
               .place = place("patternProperties")});
    }
  }
  if (find("additionalProperties") != nullptr) {
    witness({.kind = Shape::Witness::Kind::Additional,
             .node = node_,
             .pattern = {},
             .value = sub("additionalProperties", false),
             .place = place("additionalProperties")});
  }
  if (find("propertyNames") != nullptr) {
    witness({.kind = Shape::Witness::Kind::Name,
             .node = node_,
             .pattern = {},
             .value = sub("propertyNames", false),
             .place = place("propertyNames")});
  }
  if (const Json* required = find("required"); required != nullptr && !required->is_bool()) {
    for (const Json& key : list(*required, "required")) {
      out.push_back({types(kObject),
                     apply([k = text(key, "required")](Shape& s) { s.forbidden.push_back(k); })});
    }
  }
  if (find("minProperties") != nullptr && count("minProperties") > 0) {
    out.push_back({types(kObject), apply([n = count("minProperties") - 1](Shape& s) {
                     s.max_keys = s.max_keys < 0 ? n : std::min(s.max_keys, n);
                   })});
  }
  if (find("maxProperties") != nullptr) {
    out.push_back({types(kObject), apply([n = count("maxProperties") + 1](Shape& s) {
                     s.min_keys = std::max(s.min_keys, n);
                   })});
  }
  for (const Dependency& d : dependencies(false)) {
    for (const std::string& name : d.names) {
      out.push_back({types(kObject), apply([key = d.key, name](Shape& s) {
                       s.required.push_back(key);
                       s.forbidden.push_back(name);
                     })});
    }
    if (!d.schema.empty()) {
      out.push_back({types(kObject), apply([key = d.key](Shape& s) { s.required.push_back(key); }),
                     literal(d.schema)});
    }
  }
}

}  // namespace mlxcel::text::grammar
