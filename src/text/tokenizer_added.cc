#include "text/tokenizer_added.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "text/unicode_hf.h"

namespace mlxcel::text {
namespace {

constexpr size_t kMaxAddedBytes = 4096;
constexpr size_t kMaxNodes = 1 << 24;

bool ends_with_word(std::string_view text) {
  size_t at = unicode::previous(text, text.size());
  return unicode::is_rust_word(unicode::next(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return unicode::is_rust_word(unicode::next(text, at));
}

}  // namespace

ByteTrie::ByteTrie() : values_(1, -1) { grow(); }

void ByteTrie::place(Slot slot) {
  size_t at = (slot.key * uint64_t{0x9E3779B97F4A7C15ULL}) >> shift_;
  while (slots_[at].child >= 0) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void ByteTrie::grow() {
  const size_t n = std::max<size_t>(64, slots_.size() * 2);
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(n));
  mask_ = n - 1;
  shift_ = 64 - std::countr_zero(n);
  for (const Slot& s : old) {
    if (s.child >= 0) place(s);
  }
}

void ByteTrie::add(std::string_view key, int32_t value) {
  int32_t node = 0;
  for (const char c : key) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t child = step(node, byte);
    if (child < 0) {
      if (values_.size() >= kMaxNodes) {
        throw Error(Code::ResourceExhausted, "the vocabulary's texts are too long together");
      }
      child = static_cast<int32_t>(values_.size());
      values_.push_back(-1);
      if (++used_ * 2 > slots_.size()) grow();
      place({static_cast<uint32_t>(node) << 8 | byte, child});
    }
    node = child;
  }
  values_[static_cast<size_t>(node)] = value;
}

void AddedTokens::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  if (pattern.size() > kMaxAddedBytes) {
    throw Error(Code::InvalidArgument, fmt::format("an added token of {} bytes is longer than {}",
                                                   pattern.size(), kMaxAddedBytes));
  }
  trie_.add(pattern, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  bool& first = first_[static_cast<uint8_t>(pattern[0])];
  if (!std::exchange(first, true)) {
    ++first_count_;
    only_first_ = pattern[0];
  }
}

TextPart AddedTokens::widened(const AddedToken& token, std::string_view text, size_t begin,
                              size_t end, size_t done) const {
  while (token.lstrip && begin > done) {
    const size_t start = unicode::previous(text, begin);
    size_t at = start;
    if (!unicode::is_space(unicode::next(text, at))) break;
    begin = start;
  }
  while (token.rstrip && end < text.size()) {
    size_t at = end;
    if (!unicode::is_space(unicode::next(text, at))) break;
    end = at;
  }
  return {token.id, begin, end};
}

// Where a token may begin, at or after `at`.
size_t AddedTokens::next_first(std::string_view text, size_t at) const {
  if (first_count_ == 1) return std::min(text.find(only_first_, at), text.size());
  while (at < text.size() && !first_[static_cast<uint8_t>(text[at])]) ++at;
  return at;
}

void AddedTokens::split_leftmost(std::string_view text, bool parse_special,
                                 std::vector<TextPart>& parts) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    if (!first_[static_cast<uint8_t>(text[at])]) {
      at = next_first(text, at + 1);
      continue;
    }
    int32_t found = -1;
    const size_t end = at + trie_.longest_prefix(text.substr(at), &found);
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found)];
    const size_t begin = std::exchange(at, end);
    if (token.special && !parse_special) continue;
    if (token.single_word && ((begin > 0 && ends_with_word(text.substr(0, begin))) ||
                              (end < text.size() && starts_with_word(text.substr(end))))) {
      continue;
    }
    const TextPart part = widened(token, text, begin, end, done);
    if (part.begin > done) parts.push_back({-1, done, part.begin});
    // White space taken by rstrip may hold the next match, which then begins inside this part.
    if (part.end > part.begin) parts.push_back(part);
    done = part.end;
  }
  if (done < text.size()) parts.push_back({-1, done, text.size()});
}

void AddedTokens::split_longest(std::string_view text, bool parse_special,
                                std::vector<TextPart>& parts) const {
  struct Found {
    int32_t token;
    size_t begin, end;
  };
  std::vector<Found> found;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!first_[static_cast<uint8_t>(text[at])]) continue;
    int32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      node = trie_.step(node, static_cast<uint8_t>(text[i]));
      if (node < 0) break;
      const int32_t token = trie_.value(node);
      if (token < 0 || (tokens_[static_cast<size_t>(token)].special && !parse_special)) continue;
      found.push_back({token, at, i + 1});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const size_t la = a.end - a.begin, lb = b.end - b.begin;
    return la != lb ? la > lb : a.token < b.token;
  });
  std::vector<TextPart> taken;  // sorted by position
  for (const Found& f : found) {
    const auto next = std::lower_bound(taken.begin(), taken.end(), f.begin,
                                       [](const TextPart& p, size_t at) { return p.end <= at; });
    if (next != taken.end() && next->begin < f.end) continue;
    const size_t floor = next == taken.begin() ? 0 : std::prev(next)->end;
    const size_t limit = next == taken.end() ? text.size() : next->begin;
    const TextPart part = widened(tokens_[static_cast<size_t>(f.token)], text.substr(0, limit),
                                  f.begin, f.end, floor);
    taken.insert(next, part);
  }
  size_t done = 0;
  for (const TextPart& part : taken) {
    if (part.begin > done) parts.push_back({-1, done, part.begin});
    parts.push_back(part);
    done = part.end;
  }
  if (done < text.size()) parts.push_back({-1, done, text.size()});
}

void AddedTokens::split(std::string_view text, bool parse_special,
                        std::vector<TextPart>& parts) const {
  if (empty()) {
    if (!text.empty()) parts.push_back({-1, 0, text.size()});
  } else if (order_ == Order::LongestFirst) {
    split_longest(text, parse_special, parts);
  } else {
    split_leftmost(text, parse_special, parts);
  }
}

}  // namespace mlxcel::text
