// Objects of schemas: declared keys in the order of the schema, each at most once, then others.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_keywords.h"
#include "text/grammar/schema_strings.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxClasses = 64;
constexpr size_t kMaxStates = 50'000;
constexpr size_t kMaxWitnesses = 4;

void add_key(std::vector<std::string>& keys, std::set<std::string>& seen, const std::string& key) {
  if (seen.insert(key).second) keys.push_back(key);
}

}  // namespace

// What the schema object `group` asks of the value under `key`.
Literals SchemaCompiler::group_value(NodeId group, const std::string& key) {
  const Json& json = *doc_.node(group).json;
  Literals out;
  bool found = false;
  if (const Json* properties = json.find("properties")) {
    if (const Json* v = properties->find(key)) {
      found = true;
      out.push_back({doc_.child(group, *v, "properties/" + key), true});
    }
  }
  if (const Json* patterns = json.find("patternProperties")) {
    for (const auto& [pattern, v] : patterns->as_object()) {
      if (!matches(pattern, key, {group, "patternProperties"})) continue;
      found = true;
      out.push_back({doc_.child(group, v, "patternProperties/" + pattern), true});
    }
  }
  const Json* more = json.find("additionalProperties");
  if (!found && more != nullptr) {
    out.push_back({doc_.child(group, *more, "additionalProperties"), true});
  }
  return out;
}

Literals SchemaCompiler::key_value(const Shape& s, const std::string& key) {
  Literals out;
  for (const NodeId g : s.key_groups) out = merged(out, group_value(g, key));
  const auto more = s.key_values.find(key);
  if (more != s.key_values.end()) out = merged(out, more->second);
  return out;
}

// The keys that are not declared, by what their values must satisfy.
std::vector<SchemaCompiler::KeyClass> SchemaCompiler::key_classes(
    const Shape& s, const std::vector<std::string>& explicit_keys) {
  struct Split {
    std::string pattern;
    Place place;
  };
  std::vector<Split> splits;
  const auto add = [&](const std::string& pattern, Place place) {
    if (std::ranges::find(splits, pattern, &Split::pattern) == splits.end()) {
      splits.push_back({pattern, place});
    }
  };
  const auto add_patterns = [&](NodeId node) {
    if (const Json* patterns = doc_.node(node).json->find("patternProperties")) {
      for (const auto& [p, v] : patterns->as_object()) add(p, {node, "patternProperties"});
    }
  };
  for (const NodeId g : s.key_groups) add_patterns(g);
  for (const Shape::Witness& w : s.witnesses) {
    if (w.kind == Shape::Witness::Kind::Pattern) add(w.pattern, w.place);
    if (w.kind == Shape::Witness::Kind::Additional) add_patterns(w.node);
  }
  const auto value_of = [&](const std::vector<bool>& matched) {
    Literals out;
    for (const NodeId g : s.key_groups) {
      const Json& json = *doc_.node(g).json;
      bool found = false;
      if (const Json* patterns = json.find("patternProperties")) {
        for (const auto& [p, v] : patterns->as_object()) {
          const auto at = std::ranges::find(splits, p, &Split::pattern) - splits.begin();
          if (!matched[static_cast<size_t>(at)]) continue;
          found = true;
          out.push_back({doc_.child(g, v, "patternProperties/" + p), true});
        }
      }
      const Json* more = json.find("additionalProperties");
      if (!found && more != nullptr) {
        out.push_back({doc_.child(g, *more, "additionalProperties"), true});
      }
    }
    return merged(out, {});
  };
  const auto impossible = [&](const Literals& value) {
    return std::ranges::any_of(value, [&](const Literal& l) {
      const Json& json = *doc_.node(l.node).json;
      return l.positive && json.is_bool() && !json.as_bool();
    });
  };
  if (splits.empty() && impossible(value_of({}))) return {};
  std::vector<std::string> words;
  for (const std::string& key : explicit_keys) words.push_back(json_escaped(key));
  for (const std::string& key : s.forbidden) words.push_back(json_escaped(key));
  const std::vector<std::string_view> views(words.begin(), words.end());
  const size_t limit = impl_.dfa_limit();
  std::vector<KeyClass> classes{
      {combine(key_texts(s.names), dfa_of_words(views), SetOp::Minus, limit), {}, {}}};
  const auto split_by = [&](const Dfa& by) {
    std::vector<KeyClass> next;
    for (const KeyClass& c : classes) {
      for (const bool in : {true, false}) {
        KeyClass part{combine(c.keys, by, in ? SetOp::And : SetOp::Minus, limit), {}, c.matches};
        part.matches.push_back(in);
        if (!part.keys.empty()) next.push_back(std::move(part));
      }
    }
    if (next.size() > kMaxClasses) {
      throw Error(Code::ResourceExhausted,
                  "patternProperties: the patterns overlap in too many ways");
    }
    classes = std::move(next);
  };
  for (const Split& split : splits) {
    impl_.check_time();
    split_by(pattern(split.pattern, split.place));
  }
  std::erase_if(classes, [](const KeyClass& c) { return c.keys.empty(); });
  for (KeyClass& c : classes) c.value = value_of(c.matches);
  std::erase_if(classes, [&](const KeyClass& c) { return impossible(c.value); });
  // Which witnesses a class can be: the keys of one class agree about all but names.
  for (size_t w = 0; w < s.witnesses.size(); ++w) {
    const Shape::Witness& witness = s.witnesses[w];
    if (witness.kind == Shape::Witness::Kind::Name) {
      split_by(key_texts(witness.value));
      for (KeyClass& c : classes) c.value = value_of(c.matches);
      continue;
    }
    for (KeyClass& c : classes) {
      bool fits = witness.kind == Shape::Witness::Kind::Additional;
      for (size_t p = 0; p < splits.size(); ++p) {
        if (witness.kind == Shape::Witness::Kind::Pattern) {
          fits = fits || (splits[p].pattern == witness.pattern && c.matches[p]);
        } else if (const Json* own = doc_.node(witness.node).json->find("patternProperties")) {
          fits = fits && !(own->find(splits[p].pattern) != nullptr && c.matches[p]);
        }
      }
      c.matches.push_back(fits);
    }
  }
  // Only what was noted for the witnesses is left.
  for (KeyClass& c : classes) {
    c.matches.erase(c.matches.begin(),
                    c.matches.begin() + static_cast<std::ptrdiff_t>(splits.size()));
  }
  return classes;
}

namespace {

/// Where an object stands between two members.
struct ObjectState {
  size_t key = 0;     // declared keys before this one are done
  bool any = false;   // a member was written: a comma comes first
  int64_t count = 0;  // members, as far as limits need them
  uint32_t seen = 0;  // witnesses
  auto operator<=>(const ObjectState&) const = default;
};

}  // namespace

GrammarBuilder::Expr SchemaCompiler::object_value(const Shape& s) {
  if (s.max_keys >= 0 && s.max_keys < s.min_keys) return b_.alt({});
  for (const Json* v : s.excluded) {
    if (v->is_object()) {
      doc_.refuse(doc_.root(), "not",
                  "an excluded object (not const, not enum) cannot be enforced");
    }
  }
  if (s.witnesses.size() > kMaxWitnesses) {
    doc_.refuse(s.witnesses[0].place.node, s.witnesses[0].place.keyword,
                "too many conditions below not, oneOf or if");
  }
  std::vector<std::string> keys;
  std::set<std::string> seen_keys;
  const auto add_properties = [&](NodeId node) {
    if (const Json* properties = doc_.node(node).json->find("properties")) {
      for (const auto& [key, v] : properties->as_object()) add_key(keys, seen_keys, key);
    }
  };
  for (const NodeId g : s.key_groups) add_properties(g);
  for (const std::string& key : s.required) add_key(keys, seen_keys, key);
  for (const Shape::Witness& w : s.witnesses) {
    if (w.kind == Shape::Witness::Kind::Additional) add_properties(w.node);
  }
  struct Key {
    Expr name = 0;
    Literals value;
    bool possible = true, required = false;
    std::vector<bool> witnesses;
  };
  std::vector<Key> declared;
  const std::set<std::string> required(s.required.begin(), s.required.end());
  int64_t num_required = 0;
  for (const std::string& key : keys) {
    Key k;
    k.required = required.contains(key);
    k.possible = std::ranges::find(s.forbidden, key) == s.forbidden.end() &&
                 (s.names.empty() || holds(s.names, Json(key)));
    if (!k.possible && k.required) return b_.alt({});
    if (!k.possible) {
      declared.push_back(k);
      continue;
    }
    num_required += k.required ? 1 : 0;
    k.name = word('"' + json_escaped(key) + "\":");
    k.value = key_value(s, key);
    for (const Shape::Witness& w : s.witnesses) k.witnesses.push_back(witnessed(s, w, key));
    declared.push_back(std::move(k));
  }
  const std::vector<KeyClass> classes = key_classes(s, keys);
  std::vector<Key> others;
  for (const KeyClass& c : classes) {
    others.push_back({.name = b_.seq({string(quoted(c.keys)), word(":")}),
                      .value = c.value,
                      .witnesses = c.matches});
  }

  const int64_t min_keys = s.min_keys <= num_required ? 0 : s.min_keys;
  const bool counting = min_keys > 0 || s.max_keys >= 0;
  const auto all_seen = (1U << s.witnesses.size()) - 1;
  const Expr comma = b_.seq({word(","), white()});
  std::map<ObjectState, GrammarBuilder::RuleId> rules;
  std::vector<ObjectState> work;
  const auto state = [&](ObjectState at) {
    const auto it = rules.find(at);
    if (it != rules.end()) return b_.call(it->second);
    if (rules.size() >= kMaxStates) {
      throw Error(Code::ResourceExhausted,
                  "minProperties, maxProperties: too many keys to count while generating");
    }
    rules.emplace(at, b_.declare("members"));
    work.push_back(at);
    return b_.call(rules.at(at));
  };
  const auto counted = [&](ObjectState at) {
    at.any = true;
    if (counting) at.count = s.max_keys >= 0 ? at.count + 1 : std::min(at.count + 1, min_keys);
    return at;
  };
  // The ways to write one member: what it witnesses, and its text.
  const auto members = [&](const Key& k, const ObjectState& at, auto&& emit) {
    uint32_t free = 0;  // witnessed by the name alone
    uint32_t costly = 0;
    for (size_t w = 0; w < k.witnesses.size(); ++w) {
      if (!k.witnesses[w] || ((at.seen >> w) & 1) != 0) continue;
      (s.witnesses[w].kind == Shape::Witness::Kind::Name ? free : costly) |= 1U << w;
    }
    for (uint32_t bits = costly;; bits = (bits - 1) & costly) {
      Literals v = k.value;
      for (size_t w = 0; w < s.witnesses.size(); ++w) {
        if (((bits >> w) & 1) != 0) v = merged(v, s.witnesses[w].value);
      }
      std::vector<Expr> parts;
      if (at.any) parts.push_back(comma);
      parts.insert(parts.end(), {k.name, white(), value(v)});
      ObjectState next = counted(at);
      next.seen |= bits | free;
      emit(b_.seq(std::move(parts)), next);
      if (bits == 0) break;
    }
  };
  const auto full = [&](const ObjectState& at) {
    return s.max_keys >= 0 && at.count >= s.max_keys;
  };
  const Expr start = state({});
  while (!work.empty()) {
    const ObjectState first = work.back();
    work.pop_back();
    impl_.check_time();
    ObjectState at = first;
    std::vector<Expr> parts;
    // Declared keys that are forced follow each other without a choice.
    const bool simple = s.witnesses.empty();
    for (; at.key < declared.size(); ++at.key) {
      const Key& k = declared[at.key];
      if (!k.possible) continue;
      if (!k.required || !simple || full(at)) break;
      members(k, at, [&](Expr e, ObjectState next) {
        parts.push_back(e);
        at = next;
      });
    }
    std::vector<Expr> choices;
    const bool declared_left = at.key < declared.size();
    if (declared_left) {
      const Key& k = declared[at.key];
      ObjectState skipped = at;
      ++skipped.key;
      if (!k.required) choices.push_back(state(skipped));
      if (!full(at)) {
        members(k, at, [&](Expr e, ObjectState next) {
          ++next.key;
          choices.push_back(b_.seq({e, state(next)}));
        });
      }
    } else {
      const bool enough = at.count >= min_keys && at.seen == all_seen;
      if (enough) choices.push_back(b_.empty());
      for (const Key& k : others) {
        if (full(at)) break;
        members(k, at,
                [&](Expr e, ObjectState next) { choices.push_back(b_.seq({e, state(next)})); });
      }
    }
    parts.push_back(b_.alt(std::move(choices)));
    b_.define(rules.at(first), b_.seq(std::move(parts)));
  }
  return b_.seq({word("{"), white(), start, white(), word("}")});
}

}  // namespace mlxcel::text::grammar
