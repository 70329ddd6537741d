#include "base/blake3.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace mlxcel {
namespace {

using Words8 = std::array<uint32_t, 8>;
using Words16 = std::array<uint32_t, 16>;

constexpr size_t kBlockBytes = 64;
constexpr size_t kChunkBytes = 1024;
// Table 3 of the paper.
constexpr uint32_t kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8;
constexpr Words8 kIv = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                        0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
// Table 2: the order in which the next round reads the words of this one.
constexpr std::array<uint8_t, 16> kPermutation = {2, 6,  3,  10, 7, 0,  4,  13,
                                                  1, 11, 12, 5,  9, 14, 15, 8};

void mix(Words16& v, size_t a, size_t b, size_t c, size_t d, uint32_t x, uint32_t y) {
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 12);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 8);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 7);
}

// Section 2.2; the truncated output, which is the chaining value or the digest.
Words8 compress(const Words8& h, Words16 m, uint64_t counter, uint32_t length, uint32_t flags) {
  Words16 v = {h[0],
               h[1],
               h[2],
               h[3],
               h[4],
               h[5],
               h[6],
               h[7],
               kIv[0],
               kIv[1],
               kIv[2],
               kIv[3],
               static_cast<uint32_t>(counter),
               static_cast<uint32_t>(counter >> 32),
               length,
               flags};
  for (int round = 0; round < 7; ++round) {
    mix(v, 0, 4, 8, 12, m[0], m[1]);
    mix(v, 1, 5, 9, 13, m[2], m[3]);
    mix(v, 2, 6, 10, 14, m[4], m[5]);
    mix(v, 3, 7, 11, 15, m[6], m[7]);
    mix(v, 0, 5, 10, 15, m[8], m[9]);
    mix(v, 1, 6, 11, 12, m[10], m[11]);
    mix(v, 2, 7, 8, 13, m[12], m[13]);
    mix(v, 3, 4, 9, 14, m[14], m[15]);
    Words16 next;
    for (size_t i = 0; i < 16; ++i) next[i] = m[kPermutation[i]];
    m = next;
  }
  Words8 out;
  for (size_t i = 0; i < 8; ++i) out[i] = v[i] ^ v[i + 8];
  return out;
}

Words16 load_block(std::span<const std::byte> bytes) {
  Words16 words{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    words[i / 4] |= static_cast<uint32_t>(bytes[i]) << (8 * (i % 4));
  }
  return words;
}

// Section 2.4: the chaining value of one chunk of at most 1024 bytes.
Words8 hash_chunk(std::span<const std::byte> chunk, uint64_t index, uint32_t root_flag) {
  Words8 h = kIv;
  size_t at = 0;
  do {
    const size_t length = std::min(kBlockBytes, chunk.size() - at);
    const bool last = at + length == chunk.size();
    const uint32_t flags = (at == 0 ? kChunkStart : 0U) | (last ? kChunkEnd | root_flag : 0U);
    h = compress(h, load_block(chunk.subspan(at, length)), index, static_cast<uint32_t>(length),
                 flags);
    at += length;
  } while (at < chunk.size());
  return h;
}

Words8 hash_parent(const Words8& left, const Words8& right, uint32_t root_flag) {
  Words16 block;
  std::ranges::copy(left, block.begin());
  std::ranges::copy(right, block.begin() + 8);
  return compress(kIv, block, 0, kBlockBytes, kParent | root_flag);
}

}  // namespace

Digest256 blake3(std::span<const std::byte> data) {
  const size_t num_chunks = std::max<size_t>(1, (data.size() + kChunkBytes - 1) / kChunkBytes);
  Words8 root{};
  if (num_chunks == 1) {
    root = hash_chunk(data, 0, kRoot);
  } else {
    // Section 2.1: left subtrees are complete, so a stack merges them as a binary counter does.
    std::vector<Words8> stack;
    for (size_t i = 0; i + 1 < num_chunks; ++i) {
      Words8 value = hash_chunk(data.subspan(i * kChunkBytes, kChunkBytes), i, 0);
      for (size_t done = i + 1; done % 2 == 0; done /= 2) {
        value = hash_parent(stack.back(), value, 0);
        stack.pop_back();
      }
      stack.push_back(value);
    }
    const size_t last = num_chunks - 1;
    root = hash_chunk(data.subspan(last * kChunkBytes), last, 0);
    while (!stack.empty()) {
      root = hash_parent(stack.back(), root, stack.size() == 1 ? kRoot : 0U);
      stack.pop_back();
    }
  }
  Digest256 out{};
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<uint8_t>(root[i / 4] >> (8 * (i % 4)));
  }
  return out;
}

}  // namespace mlxcel
