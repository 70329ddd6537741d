#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backend/ref/ref.h"
#include "base/error.h"
#include "support.h"

namespace mlxcel::testing {
namespace {

// A cache filled for one sequence of `length` tokens whose blocks lie in a scrambled order.
struct Cache {
  // `latent`: the values are a part of the keys.
  Cache(DType type, int32_t heads, int32_t k_dim, int32_t v_dim, int32_t block_tokens,
        int32_t length, bool latent = false)
      : k(random_tensor({length, heads, k_dim}, 5)), v(random_tensor({length, heads, v_dim}, 6)) {
    kv.type = type;
    kv.kv_heads = heads;
    kv.k_dim = k_dim;
    kv.v_dim = v_dim;
    kv.block_tokens = block_tokens;
    const int32_t count = (length + block_tokens - 1) / block_tokens;
    kv.num_blocks = count + 1;
    for (int32_t i = 0; i < count; ++i) blocks.push_back((i * 7 + 3) % count);
    std::vector<bool> seen(static_cast<size_t>(count));
    for (const int32_t b : blocks) seen[static_cast<size_t>(b)] = true;
    if (std::find(seen.begin(), seen.end(), false) != seen.end()) {
      std::iota(blocks.rbegin(), blocks.rend(), 0);
    }
    const int64_t slots = int64_t{kv.num_blocks} * heads * block_tokens;
    // Unwritten places hold NaN: reading one shows.
    k_memory.assign(static_cast<size_t>(slots * k_dim * size_of(type)), 0xFF);
    v_memory.assign(static_cast<size_t>(slots * v_dim * size_of(type)), 0xFF);
    kv.k = k_memory.data();
    kv.v = latent ? nullptr : v_memory.data();
  }
  ops::AttentionSegment segment(int32_t q_len, int32_t kv_len) const {
    return {.row = 0, .q_len = q_len, .kv_len = kv_len, .blocks = blocks.data()};
  }
  void append(int32_t begin, int32_t end) {
    const auto s = segment(end - begin, end);
    const Tensor values = kv.v != nullptr ? v.slice(0, begin, end) : Tensor();
    ops::kv_append(kv, {&s, 1}, k.slice(0, begin, end), values);
  }
  Tensor attend(const Tensor& q, int32_t begin, int32_t end,
                const ops::AttentionOptions& options) const {
    const auto s = segment(end - begin, end);
    return ops::attention(q.slice(0, begin, end), kv, {&s, 1}, options);
  }
  Tensor k, v;
  ops::PagedKv kv;
  std::vector<int32_t> blocks;
  std::vector<uint8_t> k_memory, v_memory;
};

struct Case {
  DType type;
  int32_t heads, kv_heads, k_dim, v_dim, block_tokens, length, window;
  float softcap;
  bool sinks;
  bool latent = false;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {DType::F16, 9, 3, 64, 64, 32, 70, 0, 0, false},
      {DType::F32, 4, 4, 8, 8, 32, 33, 0, 0, false},
      {DType::BF16, 8, 2, 72, 80, 16, 150, 0, 0, true},
      {DType::F16, 4, 1, 128, 96, 32, 600, 0, 30.0F, false},
      {DType::F16, 2, 1, 192, 128, 8, 130, 17, 0, true},
      {DType::F32, 5, 1, 256, 256, 24, 1100, 300, 50.0F, false},
      {DType::BF16, 1, 1, 5, 3, 1, 20, 0, 0, false},
      {DType::F16, 100, 1, 16, 16, 32, 66, 1, 0, false},
      {DType::F16, 8, 1, 80, 64, 32, 150, 0, 0, false, true},
      {DType::F32, 3, 1, 20, 13, 8, 70, 9, 0, true, true},
  };
  return all;
}

ops::AttentionArgs reference_args(const Case& c, const Cache& cache, const ops::AttentionSegment& s,
                                  const Tensor& q) {
  ops::AttentionArgs a;
  a.kv = cache.kv;
  a.segments = {&s, 1};
  a.q = q.host<float>().data();
  a.q_stride = int64_t{c.heads} * c.k_dim;
  a.heads = c.heads;
  a.window = c.window;
  a.softcap = c.softcap;
  a.scale = 0.3F;
  return a;
}

template <class Fn>
void for_cases(const Fn& fn) {
  for_each_level([&] {
    for (const Case& c : cases()) {
      SCOPED_TRACE(::testing::Message() << dtype_name(c.type) << " heads " << c.heads << "/"
                                        << c.kv_heads << " dims " << c.k_dim << "/" << c.v_dim
                                        << " length " << c.length << " window " << c.window);
      Cache cache(c.type, c.kv_heads, c.k_dim, c.v_dim, c.block_tokens, c.length, c.latent);
      cache.append(0, c.length);
      const Tensor sinks = random_tensor({c.heads}, 8, 2.0F);
      ops::AttentionOptions options{.scale = 0.3F, .window = c.window, .softcap = c.softcap};
      if (c.sinks) options.sinks = &sinks;
      fn(c, cache, random_tensor({c.length, c.heads, c.k_dim}, 7), options);
    }
  });
}

TEST(Attention, MatchesTheReference) {
  for_cases(
      [](const Case& c, const Cache& cache, const Tensor& q, const ops::AttentionOptions& options) {
        const auto s = cache.segment(c.length, c.length);
        ops::AttentionArgs a = reference_args(c, cache, s, q);
        if (c.sinks) a.sinks = options.sinks->host<float>().data();
        std::vector<float> expected(static_cast<size_t>(int64_t{c.length} * c.heads * c.v_dim));
        a.out = expected.data();
        ref::op_table().attention(a);
        const Tensor got = cache.attend(q, 0, c.length, options);
        EXPECT_LT(relative_error(got.host<float>(), expected), 3e-6);
      });
}

TEST(Attention, BitsDoNotDependOnTheCutOfThePrompt) {
  for_cases(
      [](const Case& c, const Cache& cache, const Tensor& q, const ops::AttentionOptions& options) {
        const Tensor whole = cache.attend(q, 0, c.length, options);
        const auto expected = whole.host<float>();
        const auto row = static_cast<size_t>(c.heads) * static_cast<size_t>(c.v_dim);
        for (const int32_t chunk : {1, 2, 17, 64, 257}) {
          // Single rows are checked at the end of the sequence only, where all pieces take part.
          for (int32_t begin = chunk == 1 ? c.length - 5 : 0; begin < c.length; begin += chunk) {
            const int32_t end = std::min(c.length, begin + chunk);
            const Tensor part = cache.attend(q, begin, end, options);
            EXPECT_TRUE(same_bits(part.host<float>(),
                                  expected.subspan(static_cast<size_t>(begin) * row,
                                                   static_cast<size_t>(end - begin) * row)))
                << "rows " << begin << " to " << end;
          }
        }
      });
}

TEST(Attention, AppendWritesWhatTheReferenceWrites) {
  for_each_level([] {
    for (const Case& c : cases()) {
      Cache ours(c.type, c.kv_heads, c.k_dim, c.v_dim, c.block_tokens, c.length, c.latent);
      Cache theirs(c.type, c.kv_heads, c.k_dim, c.v_dim, c.block_tokens, c.length, c.latent);
      const int32_t half = c.length / 2;
      ours.append(0, half);
      ours.append(half, c.length);
      const auto s = theirs.segment(c.length, c.length);
      ref::op_table().kv_append({.kv = theirs.kv,
                                 .segments = {&s, 1},
                                 .k = theirs.k.host<float>().data(),
                                 .v = theirs.v.host<float>().data(),
                                 .k_stride = int64_t{c.kv_heads} * c.k_dim,
                                 .v_stride = int64_t{c.kv_heads} * c.v_dim});
      EXPECT_EQ(ours.k_memory, theirs.k_memory);
      EXPECT_EQ(ours.v_memory, theirs.v_memory);
    }
  });
}

TEST(Attention, SegmentsDoNotMix) {
  for_each_level([] {
    Cache cache(DType::F16, 2, 64, 64, 32, 1000);
    cache.append(0, 1000);
    const Tensor q = random_tensor({12, 6, 64}, 4);
    const std::vector<ops::AttentionSegment> segments = {
        {.row = 0, .q_len = 1, .kv_len = 1000, .blocks = cache.blocks.data()},
        {.row = 1, .q_len = 1, .kv_len = 1, .blocks = cache.blocks.data()},
        {.row = 2, .q_len = 9, .kv_len = 700, .blocks = cache.blocks.data()},
        {.row = 11, .q_len = 0, .kv_len = 0, .blocks = nullptr},
        {.row = 11, .q_len = 1, .kv_len = 513, .blocks = cache.blocks.data()},
    };
    const Tensor all = ops::attention(q, cache.kv, segments, {.scale = 0.125F});
    for (ops::AttentionSegment s : segments) {
      const Tensor rows = q.slice(0, s.row, s.row + s.q_len);
      const Tensor expected = all.slice(0, s.row, s.row + s.q_len);
      s.row = 0;
      const Tensor alone = ops::attention(rows, cache.kv, {&s, 1}, {.scale = 0.125F});
      EXPECT_TRUE(same_bits(alone.host<float>(), expected.host<float>()));
    }
  });
}

TEST(Attention, BlocksBehindTheWindowAreNeverRead) {
  for_each_level([] {
    Cache cache(DType::F32, 1, 16, 16, 16, 200);
    cache.append(0, 200);
    const Tensor q = random_tensor({200, 2, 16}, 4);
    const ops::AttentionOptions options{.scale = 0.25F, .window = 40};
    const Tensor before = cache.attend(q, 190, 200, options);
    for (int i = 0; i < (190 - 39) / 16; ++i) cache.blocks[static_cast<size_t>(i)] = -1;
    const Tensor after = cache.attend(q, 190, 200, options);
    EXPECT_TRUE(same_bits(before.host<float>(), after.host<float>()));
    cache.blocks[10] = -1;
    EXPECT_THROW(cache.attend(q, 190, 200, options), Error);
  });
}

}  // namespace
}  // namespace mlxcel::testing
