// SentencePiece's compiled character maps (github.com/google/sentencepiece, normalizer.cc describes
// the format): a Darts double array over UTF-8 bytes and a pool of NUL-terminated replacements.
#include <fmt/core.h>
#include <utf8proc.h>

#include <array>
#include <cstring>

#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/tiktoken_tokenizer.h"
#include "text/unicode.h"

namespace mlxcel::text {
namespace {

constexpr std::string_view kEscapedSpace = "\u2581";

// The bits of one double-array unit.
bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

// Hugging Face's use of the map: a short grapheme cluster is looked up whole, taking the shortest
// key that begins it for all of it; else its characters are looked up one by one.
class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::string_view blob) : map_(blob) {}

  void apply(NormalizedText& text) const override {
    if (map_.empty()) return;
    constexpr size_t kShortCluster = 6;  // bytes, exclusive
    std::string out;
    out.reserve(text.text.size());
    const std::string_view s = text.text;
    std::string_view replacement;
    size_t length = 0;
    for (size_t begin = 0; begin < s.size();) {
      const size_t end = cluster_end(s, begin);
      if (end - begin < kShortCluster &&
          map_.find(s.substr(begin, end - begin), false, replacement, length)) {
        out += replacement;
        begin = end;
        continue;
      }
      while (begin < end) {
        size_t at = begin;
        unicode::next(s, at);
        const std::string_view one = s.substr(begin, at - begin);
        out += map_.find(one, false, replacement, length) ? replacement : one;
        begin = at;
      }
    }
    text.text = std::move(out);
  }

 private:
  static size_t cluster_end(std::string_view s, size_t begin) {
    size_t at = begin;
    char32_t before = unicode::next(s, at);
    utf8proc_int32_t state = 0;
    while (at < s.size()) {
      size_t behind = at;
      const char32_t c = unicode::next(s, behind);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                           static_cast<utf8proc_int32_t>(c), &state)) {
        break;
      }
      before = c;
      at = behind;
    }
    return at;
  }

  CharsMap map_;
};

}  // namespace

CharsMap::CharsMap(std::string_view blob) {
  if (blob.empty()) return;
  uint32_t trie_bytes = 0;
  if (blob.size() > sizeof trie_bytes) std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  if (blob.size() <= sizeof trie_bytes || trie_bytes >= blob.size() - sizeof trie_bytes ||
      trie_bytes % 4 != 0) {
    throw Error(Code::Corrupt,
                fmt::format("the precompiled character map of {} bytes gives its trie {} bytes",
                            blob.size(), trie_bytes));
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), blob.data() + sizeof trie_bytes, trie_bytes);
  replacements_ = blob.substr(sizeof trie_bytes + trie_bytes);
}

bool CharsMap::find(std::string_view text, bool longest, std::string_view& replacement,
                    size_t& length) const {
  if (units_.empty()) return false;
  bool found = false;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t at = value_of(units_[node]);
    if (at >= replacements_.size()) break;
    const std::string_view tail = std::string_view(replacements_).substr(at);
    replacement = tail.substr(0, tail.find('\0'));
    length = i + 1;
    found = true;
    if (!longest) break;
  }
  return found;
}

std::unique_ptr<Normalizer> make_precompiled(std::string_view base64) {
  return std::make_unique<Precompiled>(decode_base64(base64));
}

std::string SentencePieceNormalizer::apply(std::string_view text) const {
  std::string out;
  const std::string_view space = escape_whitespaces ? kEscapedSpace : " ";
  std::string_view replacement;
  size_t length = 0;
  const auto look = [&] {
    length = verbatim.empty() ? 0 : verbatim.longest_prefix(text);
    if (length > 0) {
      replacement = text.substr(0, length);
      return;
    }
    if (map.find(text, true, replacement, length)) return;
    const utf8::Decoded d = utf8::decode(text);
    length = d.valid ? static_cast<size_t>(d.length) : 1;
    replacement = d.valid ? text.substr(0, length) : "\uFFFD";
  };
  while (remove_extra_whitespaces && !text.empty()) {
    look();
    if (replacement != " ") break;
    text.remove_prefix(length);
  }
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2);
  if (add_dummy_prefix && !whitespace_is_suffix) out += space;
  bool after_space = remove_extra_whitespaces;
  for (; !text.empty(); text.remove_prefix(length)) {
    look();
    while (after_space && replacement.starts_with(' ')) replacement.remove_prefix(1);
    for (const char c : replacement) {
      if (c == ' ') {
        out += space;
      } else {
        out += c;
      }
    }
    if (!replacement.empty()) after_space = replacement.ends_with(' ');
    if (!remove_extra_whitespaces) after_space = false;
  }
  while (remove_extra_whitespaces && out.ends_with(space)) out.resize(out.size() - space.size());
  if (add_dummy_prefix && whitespace_is_suffix) out += space;
  return out;
}

}  // namespace mlxcel::text
