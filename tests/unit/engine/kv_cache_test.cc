#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "base/error.h"
#include "engine/prefix_cache.h"

namespace mlxcel::engine {
namespace {

constexpr int32_t kBlock = 4;

KvLayout layout_of(std::vector<nn::CacheSpec> specs) {
  return make_kv_layout(specs, kBlock, DType::F32);
}

KvLayout two_groups() {
  return layout_of({nn::CacheSpec::full(1, 1), nn::CacheSpec::sliding(1, 1, 6)});
}

// The stored element of a position of a layer with one head of width one.
float& cell(const KvCache& cache, const CacheAllocation& a, int layer, int32_t position) {
  const ops::PagedKv kv = cache.kv(layer);
  const auto group = static_cast<size_t>(cache.layout().layer_group[static_cast<size_t>(layer)]);
  const BlockId block = a.blocks[group].at(static_cast<size_t>(position / kBlock));
  EXPECT_GE(block, 0);
  return static_cast<float*>(kv.k)[block * kBlock + position % kBlock];
}

TEST(KvLayout, GroupsLayersByWindow) {
  const KvLayout layout = make_kv_layout(
      std::vector{nn::CacheSpec::full(2, 8), nn::CacheSpec::sliding(1, 8, 16),
                  nn::CacheSpec::full(4, 8), nn::CacheSpec{}, nn::CacheSpec::sliding(1, 8, 32)},
      32, DType::F16);
  ASSERT_EQ(layout.groups.size(), 3U);
  EXPECT_EQ(layout.groups[0].layers, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(layout.groups[0].block_bytes, (2 + 4) * 16 * 32 * 2);
  EXPECT_EQ(layout.groups[1].window, 16);
  EXPECT_EQ(layout.groups[2].window, 32);
  EXPECT_EQ(layout.layer_group, (std::vector<int32_t>{0, 1, 0, -1, 2}));
  EXPECT_EQ(layout.bytes_per_token(), (2 + 4 + 1 + 1) * 16 * 2);
}

TEST(KvLayout, RefusesImpossibleGeometry) {
  EXPECT_THROW(layout_of({nn::CacheSpec::full(0, 8)}), Error);
  EXPECT_THROW(layout_of({nn::CacheSpec::full(1, -8)}), Error);
  EXPECT_THROW(layout_of({nn::CacheSpec::sliding(1, 8, 0)}), Error);
  const std::vector one = {nn::CacheSpec::full(1, 8)};
  EXPECT_THROW(make_kv_layout(one, 0, DType::F16), Error);
  EXPECT_THROW(make_kv_layout(one, 5000, DType::F16), Error);
  EXPECT_THROW(make_kv_layout(one, 32, DType::I8), Error);
}

TEST(KvLayout, AutoBudget) {
  EXPECT_EQ(auto_kv_budget(1000, 200, 1 << 20, 10), 640);
  EXPECT_EQ(auto_kv_budget(1000, 200, 300, 10), 300);
  EXPECT_EQ(auto_kv_budget(100, 200, 300, 10), 10);
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_GE(total_memory_bytes(), available_memory_bytes());
}

TEST(KvCache, ReserveIsAllOrNothing) {
  const KvLayout layout = two_groups();
  KvCache cache(layout, {.budget_bytes = layout.groups[0].block_bytes * 5});
  CacheAllocation a;
  ASSERT_TRUE(cache.open(a, 100));
  EXPECT_EQ(cache.reserve_bytes(a, 9), 6 * layout.groups[0].block_bytes);
  EXPECT_FALSE(cache.reserve(a, 9));
  EXPECT_EQ(cache.live_bytes(), 0);
  EXPECT_TRUE(cache.reserve(a, 8));
  cache.commit(a, 3);  // gives back the second block of both groups
  EXPECT_EQ(cache.live_bytes(), 2 * layout.groups[0].block_bytes);
  EXPECT_EQ(a.num_tokens, 3);
  cache.close(a);
  cache.close(a);
  EXPECT_EQ(cache.live_bytes(), 0);
  EXPECT_THROW(KvCache(layout, {.budget_bytes = layout.groups[0].block_bytes}), Error);
}

TEST(KvCache, WindowsReleaseWhatNoLaterTokenSees) {
  KvCache cache(two_groups(), {.budget_bytes = 1 << 20});
  CacheAllocation a;
  ASSERT_TRUE(cache.open(a, 100));
  for (int32_t n = 1; n <= 40; ++n) {
    ASSERT_TRUE(cache.reserve(a, 1));
    cache.commit(a, 1);
    // The next token, at position n, sees positions n - 5 to n.
    for (int32_t p = 0; p < n; ++p) {
      const bool held = a.blocks[1][static_cast<size_t>(p / kBlock)] != kNoBlock;
      const bool needed = (p / kBlock + 1) * kBlock > n - 5;
      EXPECT_EQ(held, needed) << "position " << p << " of " << n;
      EXPECT_NE(a.blocks[0][static_cast<size_t>(p / kBlock)], kNoBlock);
    }
    EXPECT_LE(cache.blocks(1).num_live(), 3);
  }
}

TEST(KvCache, WritingToASharedBlockCopiesIt) {
  KvCache cache(two_groups(), {.budget_bytes = 1 << 20});
  CacheAllocation a;
  ASSERT_TRUE(cache.open(a, 100));
  ASSERT_TRUE(cache.reserve(a, 6));
  for (int32_t p = 0; p < 6; ++p) cell(cache, a, 0, p) = static_cast<float>(p);
  cache.commit(a, 6);
  CacheAllocation b;
  ASSERT_TRUE(cache.adopt(b, a.blocks, 6, nullptr, 100));
  EXPECT_EQ(b.blocks, a.blocks);
  ASSERT_TRUE(cache.reserve(b, 1));
  EXPECT_EQ(b.blocks[0][0], a.blocks[0][0]);
  EXPECT_NE(b.blocks[0][1], a.blocks[0][1]);
  EXPECT_NE(b.blocks[1][1], a.blocks[1][1]);
  cell(cache, b, 0, 5) = 50;
  EXPECT_EQ(cell(cache, a, 0, 5), 5);
  EXPECT_EQ(cell(cache, b, 0, 4), 4);
  cache.close(a);
  cache.close(b);
  EXPECT_EQ(cache.live_bytes(), 0);
}

TEST(KvCache, DenseSequencesHaveConsecutiveBlocks) {
  KvCache cache(two_groups(), {.budget_bytes = 1 << 12, .dense = true});
  CacheAllocation a;
  CacheAllocation b;
  ASSERT_TRUE(cache.open(a, 30));
  ASSERT_TRUE(cache.reserve(a, 30));
  cell(cache, a, 0, 2) = 42;
  cache.commit(a, 30);
  for (size_t i = 1; i < a.blocks[0].size(); ++i) {
    EXPECT_EQ(a.blocks[0][i], a.blocks[0][i - 1] + 1);
  }
  ASSERT_TRUE(cache.adopt(b, {{a.blocks[0][0]}, {kNoBlock}}, 3, nullptr, 30));
  EXPECT_NE(b.blocks[0][0], a.blocks[0][0]);
  EXPECT_EQ(cell(cache, b, 0, 2), 42);
  CacheAllocation c;
  while (cache.open(c, 30)) c = CacheAllocation{};  // the pool runs dry without an error
  EXPECT_LT(cache.free_bytes(), 8 * 2 * kBlock * 2 * 4);
}

TEST(KvCache, StateRowsStartAtZeroAndCanBeSaved) {
  nn::CacheSpec recurrent{.kind = nn::CacheSpec::Kind::Recurrent};
  recurrent.state = {Shape{2}, Shape{3, 2}};
  KvCache cache(layout_of({recurrent, nn::CacheSpec::full(1, 1), recurrent}),
                {.budget_bytes = 1 << 16, .num_state_rows = 2});
  EXPECT_EQ(cache.layout().state_bytes, 2 * 8 * 4);
  CacheAllocation a;
  CacheAllocation b;
  CacheAllocation c;
  ASSERT_TRUE(cache.open(a, 10));
  ASSERT_TRUE(cache.open(b, 10));
  EXPECT_FALSE(cache.open(c, 10));
  Tensor state = cache.state(2, 1);
  ASSERT_TRUE(state.shape() == (Shape{2, 3, 2}));
  Tensor row = state.slice(0, a.state_row, a.state_row + 1);
  static_cast<float*>(row.raw())[5] = 7;
  const StateSnapshot saved = cache.save_state(a);
  EXPECT_EQ(saved.bytes(), cache.layout().state_bytes);
  cache.close(a);
  ASSERT_TRUE(cache.open(c, 10));
  EXPECT_EQ(cache.save_state(c).values, std::vector<float>(16, 0.0F));
  cache.load_state(c, saved);
  EXPECT_EQ(cache.save_state(c).values, saved.values);
}

TEST(KvCache, MemoryIsTakenWhenItIsWritten) {
  const auto resident = [] {
    long long size = 0;
    long long pages = 0;
    std::ifstream("/proc/self/statm") >> size >> pages;
    return pages * 4096;
  };
  const auto before = resident();
  KvCache cache(make_kv_layout(std::vector{nn::CacheSpec::full(8, 128)}, 32, DType::F16),
                {.budget_bytes = int64_t{8} << 30});
  EXPECT_LT(resident() - before, 16 << 20);
  EXPECT_EQ(cache.touched_bytes(), 0);
}

// 10,000 random operations on sequences of a small pool, with a prefix cache: contents always
// equal those of plain vectors, and nothing leaks.
TEST(KvCache, RandomOperationsAgreeWithPlainVectors) {
  struct Model {
    CacheAllocation a;
    std::vector<text::TokenId> tokens;
  };
  std::mt19937 random(11);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  KvCache cache(two_groups(), {.budget_bytes = two_groups().groups[0].block_bytes * 40});
  PrefixCache prefix(cache, {.max_entries = 12, .min_tokens = 1});
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Model>> live;
  int refused = 0;
  int adopted = 0;
  const auto verify = [&](const Model& m) {
    for (int32_t p = 0; p < m.a.num_tokens; ++p) {
      ASSERT_EQ(cell(cache, m.a, 0, p), static_cast<float>(m.tokens[static_cast<size_t>(p)]));
      if (p > m.a.num_tokens - 6) {
        ASSERT_EQ(cell(cache, m.a, 1, p), static_cast<float>(m.tokens[static_cast<size_t>(p)]));
      }
    }
  };
  for (int step = 0; step < 10000; ++step) {
    const size_t op = below(10);
    if (op < 2 && live.size() < 8) {  // open, perhaps from a stored prefix of a known prompt
      auto m = std::make_unique<Model>();
      std::vector<text::TokenId> wanted(1 + below(30));
      for (size_t i = 0; i < wanted.size(); ++i) {
        wanted[i] = static_cast<text::TokenId>(i * (1 + below(2)));
      }
      const PrefixMatch match = prefix.find("s", wanted, now);
      if (match.num_tokens > 0) {
        ASSERT_LT(static_cast<size_t>(match.num_tokens), wanted.size());
        ASSERT_TRUE(cache.adopt(m->a, match.blocks, match.num_tokens, nullptr, 100));
        m->tokens.assign(wanted.begin(), wanted.begin() + match.num_tokens);
        ++adopted;
      } else {
        ASSERT_TRUE(cache.open(m->a, 100));
      }
      verify(*m);
      live.push_back(std::move(m));
    } else if (live.empty()) {
      continue;
    } else if (op < 7) {  // a step: some positions appended, some of those kept
      Model& m = *live[below(live.size())];
      const auto count = static_cast<int32_t>(1 + below(9));
      if (!cache.reserve(m.a, count)) {
        ++refused;
        if (!prefix.evict_one() && live.size() > 1) {
          cache.close(live.back()->a);
          live.pop_back();
        }
        continue;
      }
      const auto kept = static_cast<int32_t>(below(static_cast<size_t>(count) + 1));
      for (int32_t i = 0; i < count; ++i) {
        const auto p = m.a.num_tokens + i;
        const auto token = static_cast<text::TokenId>(p * (1 + static_cast<int32_t>(below(2))));
        cell(cache, m.a, 0, p) = static_cast<float>(token);
        cell(cache, m.a, 1, p) = static_cast<float>(token);
        if (i < kept) m.tokens.push_back(token);
      }
      cache.commit(m.a, kept);
      verify(m);
    } else {  // finish or cancel
      const size_t i = below(live.size());
      verify(*live[i]);
      if (op < 9) prefix.donate("s", live[i]->tokens, live[i]->a, true, std::nullopt, now);
      cache.close(live[i]->a);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    }
    int64_t held = 0;
    for (size_t g = 0; g < 2; ++g) {
      held += int64_t{cache.blocks(static_cast<int32_t>(g)).num_live()} *
              cache.layout().groups[g].block_bytes;
    }
    ASSERT_EQ(held, cache.live_bytes());
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(adopted, 100);
  for (const auto& m : live) {
    verify(*m);
    cache.close(m->a);
  }
  EXPECT_EQ(prefix.bytes(), cache.live_bytes());
  prefix.clear();
  EXPECT_EQ(cache.live_bytes(), 0);
  EXPECT_EQ(cache.blocks(0).num_live(), 0);
  EXPECT_EQ(cache.blocks(1).num_live(), 0);
}

}  // namespace
}  // namespace mlxcel::engine
