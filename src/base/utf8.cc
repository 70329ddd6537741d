#include "base/utf8.h"

namespace mlxcel::utf8 {
namespace {

unsigned byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

// Table 3-7 of the Unicode standard: length of the sequence and the range of its second byte.
struct Lead {
  int length = 0;  // 0: not a lead byte
  unsigned low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned b) {
  if (b < 0x80) return {1};
  if (b < 0xC2) return {0};
  if (b < 0xE0) return {2};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// Number of bytes at the front that form a valid prefix of one character.
int valid_prefix(std::string_view text, const Lead& lead) {
  int n = 1;
  while (n < lead.length && static_cast<size_t>(n) < text.size()) {
    const unsigned b = byte_at(text, static_cast<size_t>(n));
    const unsigned low = n == 1 ? lead.low : 0x80;
    const unsigned high = n == 1 ? lead.high : 0xBF;
    if (b < low || b > high) break;
    ++n;
  }
  return n;
}

}  // namespace

Decoded decode(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {first, 1, true};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kReplacement, 1, false};
  const int n = valid_prefix(text, lead);
  if (n < lead.length) return {kReplacement, n, false};
  char32_t cp = first & (0xFFU >> (lead.length + 1));
  for (int i = 1; i < n; ++i) cp = (cp << 6) | (byte_at(text, static_cast<size_t>(i)) & 0x3F);
  return {cp, n, true};
}

void append(std::string& out, char32_t cp) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  if (cp < 0x80) {
    put(cp);
  } else if (cp < 0x800) {
    put(0xC0 | (cp >> 6));
    put(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    put(0xE0 | (cp >> 12));
    put(0x80 | ((cp >> 6) & 0x3F));
    put(0x80 | (cp & 0x3F));
  } else {
    put(0xF0 | (cp >> 18));
    put(0x80 | ((cp >> 12) & 0x3F));
    put(0x80 | ((cp >> 6) & 0x3F));
    put(0x80 | (cp & 0x3F));
  }
}

bool is_valid(std::string_view text) {
  while (!text.empty()) {
    const Decoded d = decode(text);
    if (!d.valid) return false;
    text.remove_prefix(static_cast<size_t>(d.length));
  }
  return true;
}

size_t complete_prefix(std::string_view text) {
  // Only the last three bytes can belong to an unfinished character.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const unsigned b = byte_at(tail, 0);
    if ((b & 0xC0) == 0x80) continue;
    const Lead lead = lead_of(b);
    if (lead.length > static_cast<int>(back) &&
        valid_prefix(tail, lead) == static_cast<int>(back)) {
      return text.size() - back;
    }
    break;
  }
  return text.size();
}

std::string repair(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded d = decode(text);
    if (d.valid) {
      out.append(text.substr(0, static_cast<size_t>(d.length)));
    } else {
      append(out, kReplacement);
    }
    text.remove_prefix(static_cast<size_t>(d.length));
  }
  return out;
}

size_t count(std::string_view text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

}  // namespace mlxcel::utf8
