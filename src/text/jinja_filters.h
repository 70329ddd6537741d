// Helpers shared by the filters that look into items.
#pragma once

#include <vector>

#include "text/jinja_builtins.h"

namespace mlxcel::text::jinja {

/// A filter's `attribute` argument: a dotted path ("function.name", "0.id"), a number, or None for
/// the item itself.
class AttributePath {
 public:
  AttributePath(Runtime& runtime, const Value& attribute);
  /// `fallback` replaces an undefined step; None = no fallback.
  Value of(Runtime& runtime, const Value& item, const Value& fallback = Value::none()) const;

 private:
  std::vector<Value> parts_;
};

/// Text in lower case; other values as they are.
Value fold_case(Runtime& runtime, const Value& value);

/// Sorts items by keys as Python's sorted(): stable, also when reversed.
void stable_sort_by(Runtime& runtime, std::vector<Value>& items, const std::vector<Value>& keys,
                    bool reverse);

}  // namespace mlxcel::text::jinja
