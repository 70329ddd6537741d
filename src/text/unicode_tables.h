// Generated character data (tools/reference/tokenizers_unicode.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcel::text::unicode {

/// Sorted; each entry is (first code point << 5) | Category, valid up to the next entry.
extern const uint32_t kCategoryRuns[];
extern const size_t kCategoryRunCount;

}  // namespace mlxcel::text::unicode
