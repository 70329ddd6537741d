// Sets of numbers and strings of a shape, and whether a given value fits one.
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_keywords.h"
#include "text/grammar/schema_number.h"
#include "text/grammar/schema_strings.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxMultipleStates = 100'000;
constexpr int kMaxHoldsDepth = 200;

Compare compare_of(std::string_view keyword, bool positive) {
  if (keyword == "minimum") return positive ? Compare::GreaterEqual : Compare::Less;
  if (keyword == "maximum") return positive ? Compare::LessEqual : Compare::Greater;
  if (keyword == "exclusiveMinimum") return positive ? Compare::Greater : Compare::LessEqual;
  return positive ? Compare::Less : Compare::GreaterEqual;
}

}  // namespace

bool SchemaCompiler::plain_numbers(const Shape& s) const {
  return s.numbers.empty() && !s.fractional &&
         std::ranges::none_of(s.excluded, [](const Json* v) { return v->is_number(); });
}

Dfa SchemaCompiler::numbers(const Shape& s) {
  Dfa set = s.integer ? all_integers() : all_decimals();
  const size_t limit = impl_.dfa_limit();
  if (s.fractional)
    set = combine(set, *multiples({.integer = "1", .fraction = ""}, 1000), SetOp::Minus, limit);
  for (const Shape::NumberRule& r : s.numbers) {
    impl_.check_time();
    const Decimal d = decimal_of(*r.value);
    if (std::string_view(r.keyword) != "multipleOf") {
      set = combine(set, compared(compare_of(r.keyword, r.positive), d), SetOp::And, limit);
      continue;
    }
    const std::optional<Dfa> of = multiples(d, kMaxMultipleStates);
    if (!of) {
      doc_.refuse(r.place.node, "multipleOf",
                  fmt::format("{} has too many digits to be enforced while generating", d.text()));
    }
    set = combine(set, *of, r.positive ? SetOp::And : SetOp::Minus, limit);
  }
  for (const Json* v : s.excluded) {
    if (v->is_number()) {
      set = combine(set, compared(Compare::Equal, decimal_of(*v)), SetOp::Minus, limit);
    }
  }
  return set;
}

const Dfa& SchemaCompiler::pattern(const std::string& text, const Place& place) {
  const auto it = patterns_.find(text);
  if (it != patterns_.end()) return it->second;
  try {
    return patterns_.emplace(text, pattern_dfa(text, impl_.dfa_limit())).first->second;
  } catch (const Error& e) {
    throw e.within(fmt::format("{}/{}", doc_.node(place.node).place, place.keyword));
  }
}

Dfa SchemaCompiler::texts(const Shape& s) {
  const size_t limit = impl_.dfa_limit();
  Dfa set = canonical_text();
  const auto narrow = [&](const Dfa& by, bool positive, const Place& place) {
    impl_.check_time();
    try {
      set = combine(set, by, positive ? SetOp::And : SetOp::Minus, limit);
    } catch (const Error& e) {
      throw e.within(fmt::format("{}/{}", doc_.node(place.node).place, place.keyword));
    }
  };
  for (const Shape::TextRule& r : s.texts) {
    if (!r.format) {
      narrow(pattern(r.text, r.place), r.positive, r.place);
      continue;
    }
    const Dfa* format = format_dfa(r.text);
    if (format == nullptr) {
      std::string known;
      for (const std::string_view f : known_formats()) known += fmt::format(" {}", f);
      doc_.refuse(r.place.node, "format",
                  fmt::format("\"{}\" cannot be enforced; these formats can:{}", r.text, known));
    }
    narrow(*format, r.positive, r.place);
  }
  if (s.min_length > 0 || s.max_length >= 0) {
    const Place place = s.texts.empty() ? Place{} : s.texts[0].place;
    constexpr int64_t kLongest = 100'000;
    if (std::max(s.min_length, s.max_length) > kLongest) {
      doc_.refuse(
          place.node, "maxLength",
          fmt::format("lengths above {} beside a pattern or format cannot be enforced", kLongest));
    }
    if (s.max_length >= 0 && s.max_length < s.min_length) {
      return Dfa{.next = std::vector<uint32_t>(1, 0)};
    }
    try {
      narrow(any_text(Spelling::Json, static_cast<int32_t>(s.min_length),
                      static_cast<int32_t>(s.max_length), limit),
             true, place);
    } catch (const Error& e) {
      if (e.code() != Code::ResourceExhausted) throw;
      doc_.refuse(place.node, place.keyword,
                  "together with the lengths of this string it needs too large an automaton");
    }
  }
  std::vector<std::string> words;
  for (const Json* v : s.excluded) {
    if (v->is_string()) words.push_back(json_escaped(v->as_string()));
  }
  if (!words.empty()) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    set = combine(set, dfa_of_words(views), SetOp::Minus, limit);
  }
  return set;
}

// Keys that "propertyNames" allows.
Dfa SchemaCompiler::key_texts(const Literals& names) {
  if (names.empty()) return canonical_text();
  Dfa set{.next = std::vector<uint32_t>(1, 0)};
  for (const Shape& s : shapes(names)) {
    if ((s.types & kString) == 0) continue;
    if (s.values) {
      std::vector<std::string> words;
      Shape rest = s;
      rest.values.reset();
      for (const Json* v : *s.values) {
        if (v->is_string() && holds(rest, *v)) words.push_back(json_escaped(v->as_string()));
      }
      const std::vector<std::string_view> views(words.begin(), words.end());
      set = combine(set, dfa_of_words(views), SetOp::Or, impl_.dfa_limit());
    } else {
      set = combine(set, texts(s), SetOp::Or, impl_.dfa_limit());
    }
  }
  return set;
}

bool SchemaCompiler::holds(const Literals& literals, const Json& v) {
  if (++holds_depth_ > kMaxHoldsDepth) {
    throw Error(Code::ResourceExhausted, "a constant of the schema is nested too deeply");
  }
  const bool any =
      std::ranges::any_of(shapes(literals), [&](const Shape& s) { return holds(s, v); });
  --holds_depth_;
  return any;
}

bool SchemaCompiler::holds(const Shape& s, const Json& v) {
  if ((s.types & type_of(v)) == 0) return false;
  if (std::ranges::any_of(s.excluded, [&](const Json* e) { return same_value(*e, v); })) {
    return false;
  }
  if (s.values &&
      std::ranges::none_of(*s.values, [&](const Json* e) { return same_value(*e, v); })) {
    return false;
  }
  if (v.is_number()) {
    if (!s.integer && plain_numbers(s)) return true;
    return numbers(s).matches(decimal_of(v).text());
  }
  if (v.is_string()) {
    const auto length = static_cast<int64_t>(utf8::count(v.as_string()));
    if (length < s.min_length || (s.max_length >= 0 && length > s.max_length)) return false;
    return s.texts.empty() || texts(s).matches(json_escaped(v.as_string()));
  }
  if (v.is_array()) return holds_array(s, v);
  if (v.is_object()) return holds_object(s, v);
  return true;
}

bool SchemaCompiler::holds_array(const Shape& s, const Json& v) {
  const Json::Array& items = v.as_array();
  const auto n = static_cast<int64_t>(items.size());
  if (n < s.min_items || (s.max_items >= 0 && n > s.max_items)) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!holds(item(s, i), items[i])) return false;
    for (size_t j = 0; s.unique && j < i; ++j) {
      if (same_value(items[i], items[j])) return false;
    }
  }
  return std::ranges::all_of(s.contains, [&](const Shape::Contains& c) {
    int64_t found = 0;
    for (size_t i = c.from; i < items.size(); ++i) found += holds(c.item, items[i]) ? 1 : 0;
    return found >= c.min && (c.max < 0 || found <= c.max);
  });
}

bool SchemaCompiler::matches(const std::string& text, const std::string& key, const Place& place) {
  return pattern(text, place).matches(json_escaped(key));
}

// Whether `key` is one of those that the witness may be found under (its name, for Kind::Name).
bool SchemaCompiler::witnessed(const Shape&, const Shape::Witness& w, const std::string& key) {
  switch (w.kind) {
    case Shape::Witness::Kind::Pattern:
      return matches(w.pattern, key, w.place);
    case Shape::Witness::Kind::Name:
      return holds(w.value, Json(key));
    case Shape::Witness::Kind::Additional:
      break;
  }
  const Json& json = *doc_.node(w.node).json;
  const Json* properties = json.find("properties");
  if (properties != nullptr && properties->find(key) != nullptr) return false;
  const Json* patterns = json.find("patternProperties");
  if (patterns == nullptr) return true;
  return std::ranges::none_of(
      patterns->as_object(), [&](const Json::Member& m) { return matches(m.first, key, w.place); });
}

bool SchemaCompiler::holds_object(const Shape& s, const Json& v) {
  const Json::Object& members = v.as_object();
  const auto n = static_cast<int64_t>(members.size());
  if (n < s.min_keys || (s.max_keys >= 0 && n > s.max_keys)) return false;
  for (const std::string& key : s.required) {
    if (v.find(key) == nullptr) return false;
  }
  for (const std::string& key : s.forbidden) {
    if (v.find(key) != nullptr) return false;
  }
  for (const auto& [key, member] : members) {
    if (!s.names.empty() && !holds(s.names, Json(key))) return false;
    if (!holds(key_value(s, key), member)) return false;
  }
  return std::ranges::all_of(s.witnesses, [&](const Shape::Witness& w) {
    return std::ranges::any_of(members, [&](const Json::Member& m) {
      if (!witnessed(s, w, m.first)) return false;
      return w.kind == Shape::Witness::Kind::Name || holds(w.value, m.second);
    });
  });
}

}  // namespace mlxcel::text::grammar
