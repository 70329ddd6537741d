#include "text/grammar/schema_keywords.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace mlxcel::text::grammar {

namespace {

constexpr int64_t kMaxCount = 1'000'000'000;

uint8_t type_bits(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kFalse | kTrue;
  if (name == "number" || name == "integer") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return 0;
}

}  // namespace

uint8_t possible_types(const Json& schema) {
  const Json* type = schema.find("type");
  if (type == nullptr) {
    const auto values = listed_values(schema);
    if (!values) return kAllTypes;
    uint8_t bits = 0;
    for (const Json* v : *values) bits |= type_of(*v);
    return bits;
  }
  if (type->is_string()) return type_bits(type->as_string());
  uint8_t bits = 0;
  if (type->is_array()) {
    for (const Json& t : type->as_array()) {
      if (t.is_string()) bits |= type_bits(t.as_string());
    }
  }
  return bits;
}

std::optional<std::vector<const Json*>> listed_values(const Json& schema) {
  if (const Json* value = schema.find("const")) return std::vector<const Json*>{value};
  const Json* list = schema.find("enum");
  if (list == nullptr || !list->is_array()) return {};
  std::vector<const Json*> out;
  for (const Json& v : list->as_array()) out.push_back(&v);
  return out;
}

bool same_value(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_int() && b.is_int()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind() || a.size() != b.size()) return false;
  if (a.is_array()) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same_value(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    return std::ranges::all_of(a.as_object(), [&](const Json::Member& m) {
      const Json* other = b.find(m.first);
      return other != nullptr && same_value(m.second, *other);
    });
  }
  return a == b;
}

KeywordReader::KeywordReader(ShapeMaker& maker, NodeId node)
    : maker_(maker), node_(node), json_(*maker.doc_.node(node).json) {
  if (json_.is_object()) check_keywords();
}

void KeywordReader::refuse(std::string_view keyword, std::string_view why) const {
  maker_.doc_.refuse(node_, keyword, why);
}

void KeywordReader::check_keywords() const {
  for (const char* k : {"unevaluatedItems", "unevaluatedProperties"}) {
    const Json* v = find(k);
    if (v != nullptr && !(v->is_bool() && v->as_bool())) {
      refuse(k, "this keyword cannot be enforced while generating");
    }
  }
  for (const char* k : {"$dynamicRef", "$recursiveRef"}) {
    if (find(k) != nullptr) refuse(k, "dynamic references are not supported; use $ref");
  }
}

KeywordReader::Step KeywordReader::apply(std::function<void(Shape&)> fn) {
  return {.apply = std::move(fn), .literal = {}, .choice = {}};
}
KeywordReader::Step KeywordReader::literal(Literals one) {
  return {.apply = {}, .literal = one.at(0), .choice = {}};
}
KeywordReader::Step KeywordReader::types(uint8_t bits) {
  return apply([bits](Shape& s) { s.types &= bits; });
}
KeywordReader::Step KeywordReader::choice(std::vector<Alternative> alternatives) const {
  return {.apply = {}, .literal = {}, .choice = std::move(alternatives)};
}

Literals KeywordReader::sub(const Json& json, const std::string& step, bool positive) {
  return {{maker_.doc_.child(node_, json, step), positive}};
}
Literals KeywordReader::sub(std::string_view keyword, bool positive) {
  return sub(*find(keyword), std::string(keyword), positive);
}

int64_t KeywordReader::count(const char* keyword) const {
  const Json& v = *find(keyword);
  if (v.is_int() && v.as_int() >= 0) return std::min(v.as_int(), kMaxCount);
  if (v.is_number() && v.as_double() >= 0 && v.as_double() == std::floor(v.as_double())) {
    return static_cast<int64_t>(std::min(v.as_double(), 1e9));
  }
  refuse(keyword, "a number that is whole and not negative is expected");
}
std::string KeywordReader::text(const Json& value, const char* keyword) const {
  if (!value.is_string()) refuse(keyword, "a string is expected");
  return value.as_string();
}
const Json::Array& KeywordReader::list(const Json& value, const char* keyword) const {
  if (!value.is_array()) refuse(keyword, "a list is expected");
  return value.as_array();
}
const Json::Object& KeywordReader::map(const Json& value, const char* keyword) const {
  if (!value.is_object()) refuse(keyword, "an object is expected");
  return value.as_object();
}

ShapeMaker::Alternative KeywordReader::assertion() {
  Alternative out;
  if (json_.is_bool()) {
    if (!json_.as_bool()) out.push_back(types(0));
    return out;
  }
  assert_logic(out);
  assert_object(out);
  assert_array(out);
  assert_string(out);
  assert_number(out);
  assert_general(out);
  return out;
}

void KeywordReader::assert_general(Alternative& out) {
  if (const Json* type = find("type")) {
    uint8_t bits = 0;
    bool integer = false;
    const auto add = [&](const Json& t) {
      const std::string name = text(t, "type");
      const uint8_t b = type_bits(name);
      if (b == 0) refuse("type", fmt::format("the unknown type \"{}\"", name));
      integer = integer || (name == "integer" && (bits & kNumber) == 0);
      if (name == "number") integer = false;
      bits |= b;
    };
    if (type->is_array()) {
      bool number = false;
      for (const Json& t : type->as_array()) {
        number = number || (t.is_string() && t.as_string() == "number");
        add(t);
      }
      if (number) integer = false;
    } else {
      add(*type);
    }
    out.push_back(apply([bits, integer](Shape& s) {
      s.types &= bits;
      if (integer) s.integer = true;
    }));
  }
  const auto restrict_to = [&](std::vector<const Json*> values) {
    out.push_back(apply([values = std::move(values)](Shape& s) {
      uint8_t bits = 0;
      std::vector<const Json*> kept;
      for (const Json* v : values) {
        const bool also = !s.values || std::ranges::any_of(*s.values, [&](const Json* w) {
          return same_value(*v, *w);
        });
        if (!also) continue;
        kept.push_back(v);
        bits |= type_of(*v);
      }
      s.types &= bits;
      s.values = std::move(kept);
    }));
  };
  if (const Json* value = find("const")) restrict_to({value});
  if (const Json* values = find("enum")) {
    if (list(*values, "enum").size() > static_cast<size_t>(maker_.limits_.max_enum_values)) {
      throw Error(Code::ResourceExhausted,
                  fmt::format("{}/enum: more than {} values", maker_.doc_.node(node_).place,
                              maker_.limits_.max_enum_values));
    }
    std::vector<const Json*> all;
    for (const Json& v : values->as_array()) all.push_back(&v);
    restrict_to(std::move(all));
  }
}

void KeywordReader::assert_number(Alternative& out) {
  for (const char* k :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    const Json* v = find(k);
    if (v == nullptr) continue;
    const char* keyword = k;
    const Json* value = v;
    if (v->is_bool()) {  // draft 4: a flag beside minimum or maximum
      if (!v->as_bool()) continue;
      value = find(std::string_view(k) == "exclusiveMinimum" ? "minimum" : "maximum");
      if (value == nullptr || std::string_view(k) == "multipleOf") continue;
    }
    if (!value->is_number()) refuse(k, "a number is expected");
    if (std::string_view(k) == "multipleOf" && value->as_double() <= 0) {
      refuse(k, "a number above 0 is expected");
    }
    out.push_back(apply([value, keyword, p = place(keyword)](Shape& s) {
      s.numbers.push_back({value, keyword, true, p});
    }));
  }
}

void KeywordReader::assert_string(Alternative& out) {
  if (find("minLength") != nullptr) {
    out.push_back(
        apply([n = count("minLength")](Shape& s) { s.min_length = std::max(s.min_length, n); }));
  }
  if (find("maxLength") != nullptr) {
    out.push_back(apply([n = count("maxLength")](Shape& s) {
      s.max_length = s.max_length < 0 ? n : std::min(s.max_length, n);
    }));
  }
  for (const char* k : {"pattern", "format"}) {
    const Json* v = find(k);
    if (v == nullptr) continue;
    const bool format = std::string_view(k) == "format";
    out.push_back(apply([t = text(*v, k), format, p = place(k)](Shape& s) {
      s.texts.push_back({t, format, true, p});
    }));
  }
}

void KeywordReader::assert_array(Alternative& out) {
  if (find("prefixItems") != nullptr || find("items") != nullptr) {
    if (const Json* prefix = find("prefixItems")) list(*prefix, "prefixItems");
    out.push_back(apply([n = node_](Shape& s) { s.item_groups.push_back(n); }));
  }
  if (find("contains") != nullptr) {
    Shape::Contains c{.item = sub("contains"), .place = place("contains")};
    if (find("minContains") != nullptr) c.min = count("minContains");
    if (find("maxContains") != nullptr) c.max = count("maxContains");
    if (c.min > 0 || c.max >= 0) {
      out.push_back(apply([c](Shape& s) { s.contains.push_back(c); }));
    }
  }
  if (find("minItems") != nullptr) {
    out.push_back(
        apply([n = count("minItems")](Shape& s) { s.min_items = std::max(s.min_items, n); }));
  }
  if (find("maxItems") != nullptr) {
    out.push_back(apply([n = count("maxItems")](Shape& s) {
      s.max_items = s.max_items < 0 ? n : std::min(s.max_items, n);
    }));
  }
  const Json* unique = find("uniqueItems");
  if (unique != nullptr && !(unique->is_bool() && !unique->as_bool())) {
    out.push_back(apply([p = place("uniqueItems")](Shape& s) {
      s.unique = true;
      s.unique_place = p;
    }));
  }
}

void KeywordReader::assert_object(Alternative& out) {
  for (const char* k : {"properties", "patternProperties"}) {
    if (const Json* v = find(k)) map(*v, k);
  }
  if (find("properties") != nullptr || find("patternProperties") != nullptr ||
      find("additionalProperties") != nullptr) {
    out.push_back(apply([n = node_](Shape& s) { s.key_groups.push_back(n); }));
  }
  if (find("propertyNames") != nullptr) {
    out.push_back(apply([l = sub("propertyNames")](Shape& s) { s.names = merged(s.names, l); }));
  }
  if (const Json* required = find("required"); required != nullptr && !required->is_bool()) {
    std::vector<std::string> keys;
    for (const Json& key : list(*required, "required")) keys.push_back(text(key, "required"));
    out.push_back(apply([keys](Shape& s) {
      for (const std::string& key : keys) {
        if (std::ranges::find(s.required, key) == s.required.end()) s.required.push_back(key);
      }
    }));
  }
  if (find("minProperties") != nullptr) {
    out.push_back(
        apply([n = count("minProperties")](Shape& s) { s.min_keys = std::max(s.min_keys, n); }));
  }
  if (find("maxProperties") != nullptr) {
    out.push_back(apply([n = count("maxProperties")](Shape& s) {
      s.max_keys = s.max_keys < 0 ? n : std::min(s.max_keys, n);
    }));
  }
  for (const Dependency& d : dependencies(true)) {
    const auto lacks = apply([key = d.key](Shape& s) { s.forbidden.push_back(key); });
    Alternative has{types(kObject), apply([d](Shape& s) {
                      s.required.push_back(d.key);
                      s.required.insert(s.required.end(), d.names.begin(), d.names.end());
                    })};
    if (!d.schema.empty()) has.push_back(literal(d.schema));
    out.push_back(choice({{types(kAllTypes & ~kObject)}, {types(kObject), lacks}, has}));
  }
}

std::vector<KeywordReader::Dependency> KeywordReader::dependencies(bool positive) {
  std::vector<Dependency> out;
  for (const char* k : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* v = find(k);
    if (v == nullptr) continue;
    for (const auto& [key, needed] : map(*v, k)) {
      Dependency d{.key = key, .names = {}, .schema = {}};
      if (needed.is_array() && std::string_view(k) != "dependentSchemas") {
        for (const Json& name : needed.as_array()) d.names.push_back(text(name, k));
      } else if (std::string_view(k) == "dependentRequired") {
        refuse(k, "lists of names are expected");
      } else {
        d.schema = sub(needed, fmt::format("{}/{}", k, key), positive);
      }
      out.push_back(std::move(d));
    }
  }
  return out;
}

void KeywordReader::assert_logic(Alternative& out) {
  if (const Json* ref = find("$ref")) {
    out.push_back(literal({{maker_.doc_.resolve(node_, text(*ref, "$ref")), true}}));
  }
  if (const Json* all = find("allOf")) {
    const Json::Array& parts = list(*all, "allOf");
    for (size_t i = 0; i < parts.size(); ++i) {
      out.push_back(literal(sub(parts[i], fmt::format("allOf/{}", i))));
    }
  }
  if (const Json* any = find("anyOf")) {
    std::vector<Alternative> branches;
    const Json::Array& parts = list(*any, "anyOf");
    for (size_t i = 0; i < parts.size(); ++i) {
      branches.push_back({literal(sub(parts[i], fmt::format("anyOf/{}", i)))});
    }
    out.push_back(choice(std::move(branches)));
  }
  if (find("oneOf") != nullptr) out.push_back(choice(one_of()));
  if (find("not") != nullptr) out.push_back(literal(sub("not", false)));
  if (find("if") != nullptr) {
    std::vector<Alternative> branches = conditional(true);
    if (!branches.empty()) out.push_back(choice(std::move(branches)));
  }
}

// One branch holds and no other does; denials are left out where branches exclude each other.
std::vector<ShapeMaker::Alternative> KeywordReader::one_of() {
  const Json::Array& parts = list(*find("oneOf"), "oneOf");
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < parts.size(); ++i) {
    nodes.push_back(sub(parts[i], fmt::format("oneOf/{}", i))[0].node);
  }
  std::vector<Alternative> branches;
  for (const NodeId i : nodes) {
    Alternative branch;
    for (const NodeId j : nodes) {
      if (i != j && !maker_.disjoint(i, j, 0)) branch.push_back(literal({{j, false}}));
    }
    branch.push_back(literal({{i, true}}));
    branches.push_back(std::move(branch));
  }
  return branches;
}

// (if and then) or (not if and else); for the denial, then and else are denied.
std::vector<ShapeMaker::Alternative> KeywordReader::conditional(bool positive) {
  const bool has_then = find("then") != nullptr;
  const bool has_else = find("else") != nullptr;
  if (!has_then && !has_else) return {};
  Alternative met;
  Alternative unmet;
  if (has_then) met.push_back(literal(sub("then", positive)));
  if (has_else) unmet.push_back(literal(sub("else", positive)));
  met.push_back(literal(sub("if", true)));
  unmet.push_back(literal(sub("if", false)));
  std::vector<Alternative> out;
  if (positive || has_then) out.push_back(std::move(met));
  if (positive || has_else) out.push_back(std::move(unmet));
  return out;
}

}  // namespace mlxcel::text::grammar
