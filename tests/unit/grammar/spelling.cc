#include "spelling.h"

#include <algorithm>
#include <numeric>

#include "text/grammar/schema_number.h"
#include "text/grammar/schema_strings.h"

namespace mlxcel::text {

std::vector<std::string> canonical_spellings(const Json& value, size_t limit) {
  if (value.is_number()) {
    const grammar::Decimal d = grammar::decimal_of(value);
    return {d.text()};
  }
  if (value.is_string()) return {'"' + grammar::json_escaped(value.as_string()) + '"'};
  if (!value.is_array() && !value.is_object()) return {value.dump()};
  const bool array = value.is_array();
  std::vector<size_t> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::string> out;
  do {
    std::vector<std::string> texts{array ? "[" : "{"};
    for (size_t i = 0; i < order.size(); ++i) {
      const Json& part = array ? value.as_array()[i] : value.as_object()[order[i]].second;
      std::string head = i > 0 ? "," : "";
      if (!array) {
        head += '"' + grammar::json_escaped(value.as_object()[order[i]].first) + "\":";
      }
      std::vector<std::string> next;
      for (const std::string& text : texts) {
        for (const std::string& spelled : canonical_spellings(part, limit)) {
          if (next.size() < limit) next.push_back(text + head + spelled);
        }
      }
      texts = std::move(next);
    }
    for (std::string& text : texts) {
      if (out.size() < limit) out.push_back(text + (array ? "]" : "}"));
    }
  } while (!array && out.size() < limit && std::next_permutation(order.begin(), order.end()));
  return out;
}

}  // namespace mlxcel::text
