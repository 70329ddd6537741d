#include "text/grammar/char_set.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace mlxcel::text::grammar {

namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kSurrogateFirst = 0xD800, kSurrogateLast = 0xDFFF;

/// Cuts [lo, hi], whose code points have one length in UTF-8, where continuation bytes do not run
/// over their whole range.
void spell_range(char32_t lo, char32_t hi, const std::function<void(const ByteSequence&)>& emit) {
  for (int tail = 1; tail <= 3; ++tail) {
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((lo & ~mask) == (hi & ~mask)) continue;
    if ((lo & mask) != 0) {
      spell_range(lo, lo | mask, emit);
      spell_range((lo | mask) + 1, hi, emit);
      return;
    }
    if ((hi & mask) != mask) {
      spell_range(lo, (hi & ~mask) - 1, emit);
      spell_range(hi & ~mask, hi, emit);
      return;
    }
  }
  std::string first;
  std::string last;
  utf8::append(first, lo);
  utf8::append(last, hi);
  ByteSequence out;
  out.size = static_cast<uint8_t>(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    out.ranges[i] = {static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])};
  }
  emit(out);
}

void spell_utf8(CodeRange range, const std::function<void(const ByteSequence&)>& emit) {
  static constexpr CodeRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLast}};
  for (const CodeRange& l : kLengths) {
    const char32_t lo = std::max(range.lo, l.lo);
    const char32_t hi = std::min(range.hi, l.hi);
    if (lo <= hi) spell_range(lo, hi, emit);
  }
}

void spell_text(std::string_view text, const std::function<void(const ByteSequence&)>& emit) {
  ByteSequence out;
  out.size = static_cast<uint8_t>(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto b = static_cast<uint8_t>(text[i]);
    out.ranges[i] = {b, b};
  }
  emit(out);
}

void spell_control(char32_t c, const std::function<void(const ByteSequence&)>& emit) {
  static constexpr std::string_view kShort = "btn\vfr";  // 8, 9, 10, -, 12, 13
  if (c >= 8 && c <= 13 && c != 11) return spell_text(std::string{'\\', kShort[c - 8]}, emit);
  static constexpr std::string_view kLower = "0123456789abcdef";
  static constexpr std::string_view kUpper = "0123456789ABCDEF";
  const char high = c >= 16 ? '1' : '0';
  spell_text(std::string{'\\', 'u', '0', '0', high, kLower[c & 15]}, emit);
  if ((c & 15) > 9) spell_text(std::string{'\\', 'u', '0', '0', high, kUpper[c & 15]}, emit);
}

}  // namespace

CharSet::CharSet(std::initializer_list<CodeRange> ranges) : ranges_(ranges) { normalize(); }

CharSet::CharSet(std::vector<CodeRange> ranges) : ranges_(std::move(ranges)) { normalize(); }

CharSet CharSet::all() { return {{0, kSurrogateFirst - 1}, {kSurrogateLast + 1, kLast}}; }

void CharSet::add(char32_t lo, char32_t hi) {
  ranges_.push_back({lo, hi});
  normalize();
}

void CharSet::add(const CharSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CharSet::normalize() {
  std::erase_if(ranges_, [](const CodeRange& r) { return r.lo > r.hi; });
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.lo < b.lo; });
  size_t kept = 0;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (kept > 0 && ranges_[i].lo <= ranges_[kept - 1].hi + 1) {
      ranges_[kept - 1].hi = std::max(ranges_[kept - 1].hi, ranges_[i].hi);
    } else {
      ranges_[kept++] = ranges_[i];
    }
  }
  ranges_.resize(kept);
}

CharSet CharSet::negated() const {
  CharSet out;
  char32_t next = 0;
  for (const CodeRange& r : ranges_) {
    if (r.lo > next) out.ranges_.push_back({next, r.lo - 1});
    next = r.hi + 1;
  }
  if (next <= kLast) out.ranges_.push_back({next, kLast});
  // Surrogates are no characters, whichever side they fell on.
  std::vector<CodeRange> cut;
  for (const CodeRange& r : out.ranges_) {
    if (r.lo < kSurrogateFirst)
      cut.push_back({r.lo, std::min<char32_t>(r.hi, kSurrogateFirst - 1)});
    if (r.hi > kSurrogateLast) cut.push_back({std::max<char32_t>(r.lo, kSurrogateLast + 1), r.hi});
  }
  out.ranges_ = std::move(cut);
  return out;
}

bool CharSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const CodeRange& r) { return r.lo <= c && c <= r.hi; });
}

void spell(const CharSet& set, Spelling spelling,
           const std::function<void(const ByteSequence&)>& emit) {
  for (const CodeRange& range : set.ranges()) {
    if (spelling == Spelling::Utf8) {
      spell_utf8(range, emit);
      continue;
    }
    for (char32_t c = range.lo; c <= std::min<char32_t>(range.hi, 0x1F); ++c) {
      spell_control(c, emit);
    }
    const auto plain = [&](char32_t lo, char32_t hi) {
      const CodeRange part{std::max(range.lo, lo), std::min(range.hi, hi)};
      if (part.lo <= part.hi) spell_utf8(part, emit);
    };
    const auto has = [&](char32_t c) { return range.lo <= c && c <= range.hi; };
    plain(0x20, '"' - 1);
    if (has('"')) spell_text("\\\"", emit);
    plain('"' + 1, '\\' - 1);
    if (has('\\')) spell_text("\\\\", emit);
    plain('\\' + 1, kLast);
  }
}

}  // namespace mlxcel::text::grammar
