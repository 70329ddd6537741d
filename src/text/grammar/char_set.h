// Sets of Unicode code points as sorted ranges, and their spelling in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace mlxcel::text::grammar {

struct CodeRange {
  char32_t lo = 0, hi = 0;  // both included
  bool operator==(const CodeRange&) const = default;
};

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CodeRange> ranges);
  explicit CharSet(std::vector<CodeRange> ranges);
  static CharSet all();  // every code point but the surrogates

  void add(char32_t lo, char32_t hi);
  void add(const CharSet& other);
  CharSet negated() const;  // within all()
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  std::span<const CodeRange> ranges() const { return ranges_; }
  bool operator==(const CharSet&) const = default;

 private:
  void normalize();
  std::vector<CodeRange> ranges_;  // sorted, disjoint, not adjacent
};

struct ByteRange {
  uint8_t lo = 0, hi = 0;
};
/// One to six ranges of bytes that follow each other.
struct ByteSequence {
  std::array<ByteRange, 6> ranges;
  uint8_t size = 0;
};

enum class Spelling : uint8_t {
  Utf8,
  Json,  // inside a JSON string: '"', '\' and controls escaped in the shortest way, others as UTF-8
};
/// Calls `emit` with sequences that together spell exactly the code points of `set`; surrogates are
/// left out.
void spell(const CharSet& set, Spelling spelling,
           const std::function<void(const ByteSequence&)>& emit);

}  // namespace mlxcel::text::grammar
