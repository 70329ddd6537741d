// Arrays of schemas.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_keywords.h"
#include "text/grammar/schema_strings.h"

namespace mlxcel::text::grammar {

namespace {

constexpr size_t kMaxPrefix = 5000;
constexpr size_t kMaxCountStates = 20'000;
constexpr size_t kMaxDistinct = 10;  // values of an item beside uniqueItems

const Json* prefix_of(const Json& json) {
  const Json* prefix = json.find("prefixItems");
  if (prefix != nullptr) return prefix;
  const Json* items = json.find("items");
  return items != nullptr && items->is_array() ? items : nullptr;
}

}  // namespace

size_t SchemaCompiler::num_prefix(const Shape& s) const {
  size_t n = 0;
  for (const NodeId g : s.item_groups) {
    if (const Json* prefix = prefix_of(*doc_.node(g).json)) n = std::max(n, prefix->size());
  }
  if (!s.item_values.empty()) n = std::max(n, s.item_values.rbegin()->first + 1);
  for (const Shape::Contains& c : s.contains) n = std::max(n, c.from);
  if (n > kMaxPrefix) {
    throw Error(Code::ResourceExhausted, fmt::format("more than {} prefixItems", kMaxPrefix));
  }
  return n;
}

// What the item at `index` must satisfy; any index behind the prefix stands for all of them.
Literals SchemaCompiler::item(const Shape& s, size_t index) {
  Literals out;
  for (const NodeId g : s.item_groups) {
    const Json& json = *doc_.node(g).json;
    const Json* prefix = prefix_of(json);
    const bool old_form = prefix != nullptr && prefix == json.find("items");
    if (prefix != nullptr && index < prefix->size()) {
      const char* k = old_form ? "items" : "prefixItems";
      out.push_back(
          {doc_.child(g, prefix->as_array()[index], fmt::format("{}/{}", k, index)), true});
    } else if (const Json* rest = json.find(old_form ? "additionalItems" : "items")) {
      out.push_back({doc_.child(g, *rest, old_form ? "additionalItems" : "items"), true});
    }
  }
  const auto more = s.item_values.find(index);
  if (more != s.item_values.end()) out = merged(out, more->second);
  return merged(out, {});
}

GrammarBuilder::Expr SchemaCompiler::array_value(const Shape& s) {
  if (s.max_items >= 0 && s.max_items < s.min_items) return b_.alt({});
  for (const Json* v : s.excluded) {
    if (v->is_array()) {
      doc_.refuse(doc_.root(), "not", "an excluded array (not const, not enum) cannot be enforced");
    }
  }
  Expr items = 0;
  if (s.unique && (s.max_items < 0 || s.max_items > 1)) {
    items = distinct_items(s);
  } else if (!s.contains.empty()) {
    items = counted_items(s);
  } else {
    const size_t prefix = num_prefix(s);
    const Expr comma = b_.seq({word(","), white()});
    const auto limit = [&](int64_t n) {
      return n < 0 || n > impl_.limits.max_repeat ? GrammarBuilder::kUnbounded
                                                  : static_cast<int32_t>(n);
    };
    // From behind: what may follow after i items.
    const Expr rest = value(item(s, prefix));
    const auto p = static_cast<int64_t>(prefix);
    Expr tail = b_.empty();
    if (s.max_items < 0 || s.max_items > p) {
      const int64_t min = std::max<int64_t>(s.min_items - std::max<int64_t>(p, 1), 0);
      const int64_t max = s.max_items < 0 ? -1 : s.max_items - std::max<int64_t>(p, 1);
      const Expr more = b_.repeat(b_.seq({comma, rest}), limit(min), limit(max));
      tail = p > 0 ? more : b_.seq({rest, more});
      if (p == 0 && s.min_items == 0) tail = b_.optional(tail);
    }
    for (size_t i = prefix; i-- > 0;) {
      if (s.max_items >= 0 && static_cast<int64_t>(i) >= s.max_items) {
        tail = b_.empty();
        continue;
      }
      Expr here =
          i == 0 ? b_.seq({value(item(s, i)), tail}) : b_.seq({comma, value(item(s, i)), tail});
      if (static_cast<int64_t>(i) >= s.min_items) here = b_.optional(here);
      const auto rule = b_.declare("items");  // a rule of its own keeps the nesting flat
      b_.define(rule, here);
      tail = b_.call(rule);
    }
    items = tail;
  }
  return b_.seq({word("["), white(), items, white(), word("]")});
}

// Arrays with "contains": one rule for each index and each tuple of counts.
GrammarBuilder::Expr SchemaCompiler::counted_items(const Shape& s) {
  const size_t k = s.contains.size();
  if (k > 6) doc_.refuse(s.contains[0].place.node, "contains", "more than six of them together");
  // At least 1: the first item has no comma.
  const auto last =
      std::max({static_cast<int64_t>(num_prefix(s)), s.min_items, s.max_items, int64_t{1}});
  using Counts = std::vector<int64_t>;
  std::map<std::pair<int64_t, Counts>, GrammarBuilder::RuleId> rules;
  std::vector<std::pair<int64_t, Counts>> work;
  const auto state = [&](int64_t index, const Counts& counts) {
    const std::pair key{std::min(index, last), counts};
    const auto it = rules.find(key);
    if (it != rules.end()) return b_.call(it->second);
    if (rules.size() >= kMaxCountStates) {
      doc_.refuse(s.contains[0].place.node, s.contains[0].place.keyword,
                  "its counts are too large to be enforced while generating");
    }
    rules.emplace(key, b_.declare("contains"));
    work.push_back(key);
    return b_.call(rules.at(key));
  };
  const Expr start = state(0, Counts(k, 0));
  const Expr comma = b_.seq({word(","), white()});
  while (!work.empty()) {
    const auto [index, counts] = work.back();
    work.pop_back();
    impl_.check_time();
    std::vector<Expr> choices;
    bool enough = index >= s.min_items;
    for (size_t c = 0; c < k; ++c) enough = enough && counts[c] >= s.contains[c].min;
    if (enough) choices.push_back(b_.empty());
    const bool full = s.max_items >= 0 && index >= s.max_items;
    for (uint32_t bits = 0; !full && bits < (1U << k); ++bits) {
      Literals item = this->item(s, static_cast<size_t>(index));
      Counts next = counts;
      bool possible = true;
      for (size_t c = 0; c < k; ++c) {
        const Shape::Contains& rule = s.contains[c];
        const bool counts_here = static_cast<size_t>(index) >= rule.from;
        if (((bits >> c) & 1) != 0) {
          possible = possible && counts_here && (rule.max < 0 || counts[c] < rule.max);
          // Behind its minimum a count without a maximum says nothing new.
          possible = possible && (rule.max >= 0 || counts[c] < rule.min);
          ++next[c];
          item = merged(item, rule.item);
        } else if (rule.max >= 0 && counts_here) {
          Literals none = rule.item;
          for (Literal& l : none) l.positive = !l.positive;
          item = merged(item, none);
        }
      }
      if (!possible) continue;
      const int64_t after = s.max_items < 0 ? std::min(index + 1, last) : index + 1;
      const Expr rest = state(after, next);
      choices.push_back(index == 0 ? b_.seq({value(item), rest})
                                   : b_.seq({comma, value(item), rest}));
    }
    b_.define(rules.at({index, counts}), b_.alt(std::move(choices)));
  }
  return start;
}

// Arrays of distinct items: a rule for each set of values that were used.
GrammarBuilder::Expr SchemaCompiler::distinct_items(const Shape& s) {
  std::vector<const Json*> values;
  static const Json kConstants[] = {Json(), Json(false), Json(true)};
  bool finite = num_prefix(s) == 0 && s.contains.empty();
  if (finite) {
    for (const Shape& i : shapes(item(s, 0))) {
      const auto add = [&](const Json* v) {
        if (!holds(i, *v)) return;
        if (std::ranges::none_of(values, [&](const Json* w) { return same_value(*v, *w); })) {
          values.push_back(v);
        }
      };
      if (i.values) {
        for (const Json* v : *i.values) add(v);
      } else if ((i.types & ~uint8_t{kNull | kTrue | kFalse}) == 0) {
        for (const Json& v : kConstants) add(&v);
      } else {
        finite = false;
      }
    }
  }
  if (!finite || values.size() > kMaxDistinct) {
    doc_.refuse(s.unique_place.node, "uniqueItems",
                fmt::format("distinct items can only be enforced while generating when items are "
                            "limited to at most {} values (enum, const, boolean)",
                            kMaxDistinct));
  }
  const auto n = static_cast<uint32_t>(values.size());
  std::vector<GrammarBuilder::RuleId> rules;
  for (uint32_t used = 0; used < (1U << n); ++used) rules.push_back(b_.declare("distinct"));
  const Expr comma = b_.seq({word(","), white()});
  for (uint32_t used = 0; used < (1U << n); ++used) {
    const int size = __builtin_popcount(used);
    std::vector<Expr> choices;
    if (size >= s.min_items) choices.push_back(b_.empty());
    for (uint32_t i = 0; i < n && (s.max_items < 0 || size < s.max_items); ++i) {
      if (((used >> i) & 1) != 0) continue;
      std::vector<Expr> parts;
      if (size > 0) parts.push_back(comma);
      parts.push_back(constant(*values[i]));
      parts.push_back(b_.call(rules[used | (1U << i)]));
      choices.push_back(b_.seq(std::move(parts)));
    }
    b_.define(rules[used], b_.alt(std::move(choices)));
  }
  return b_.call(rules[0]);
}

}  // namespace mlxcel::text::grammar
