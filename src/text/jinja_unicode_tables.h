// Unicode facts beyond utf8proc's simple properties, sorted by code point.
#pragma once

#include <cstdint>
#include <span>

namespace mlxcel::text::jinja::tables {

struct CodeRange {
  char32_t first, last;
};
struct CaseMapping {
  char32_t from;
  char32_t to[3];  // 0 = unused
};

std::span<const CodeRange> digit();        // isdigit() beyond category Nd
std::span<const CodeRange> numeric();      // isnumeric() beyond isdigit()
std::span<const CodeRange> other_lower();  // Lowercase beyond category Ll
std::span<const CodeRange> other_upper();  // Uppercase beyond category Lu
std::span<const CaseMapping> upper();      // full mappings that differ from the simple ones
std::span<const CaseMapping> lower();
std::span<const CaseMapping> title();

}  // namespace mlxcel::text::jinja::tables
