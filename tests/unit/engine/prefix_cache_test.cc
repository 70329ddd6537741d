#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "harness.h"

namespace mlxcel::engine {
namespace {

using Tokens = std::vector<text::TokenId>;
constexpr int32_t kBlock = 4;

Tokens iota(int32_t n, int32_t from = 0) {
  Tokens out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), from);
  return out;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  explicit PrefixCacheTest(std::vector<nn::CacheSpec> specs = {nn::CacheSpec::full(1, 1)})
      : kv(make_kv_layout(specs, kBlock, DType::F32),
           {.budget_bytes = 1 << 16, .num_state_rows = 8}) {}

  void donate(PrefixCache& cache, const Tokens& tokens, bool with_tail = true,
              const char* scope = "s") {
    CacheAllocation a;
    ASSERT_TRUE(kv.open(a, 1000));
    ASSERT_TRUE(kv.reserve(a, static_cast<int32_t>(tokens.size())));
    kv.commit(a, static_cast<int32_t>(tokens.size()));
    std::optional<StateSnapshot> state;
    if (kv.layout().recurrent) state = kv.save_state(a);
    cache.donate(scope, tokens, a, with_tail, std::move(state), now);
    kv.close(a);
  }
  int32_t found(PrefixCache& cache, const Tokens& tokens, const char* scope = "s") {
    return cache.find(scope, tokens, now).num_tokens;
  }

  KvCache kv;
  std::chrono::steady_clock::time_point now{};
};

TEST_F(PrefixCacheTest, FindsTheLongestPrefixInsideABlock) {
  for (const bool blake3 : {false, true}) {
    PrefixCache cache(kv, {.min_tokens = 1, .blake3 = blake3});
    EXPECT_EQ(found(cache, iota(5)), 0);
    donate(cache, iota(10));
    EXPECT_EQ(cache.num_blocks(), 3);
    EXPECT_EQ(found(cache, iota(20)), 10);
    EXPECT_EQ(found(cache, iota(10)), 9);  // one token is left to compute
    EXPECT_EQ(found(cache, iota(8)), 7);
    EXPECT_EQ(found(cache, iota(6) + iota(9, 50)), 6);
    EXPECT_EQ(found(cache, iota(4) + iota(9, 50)), 4);
    EXPECT_EQ(found(cache, iota(1)), 0);
    EXPECT_EQ(found(cache, iota(9, 50)), 0);
    const PrefixMatch match = cache.find("s", iota(6) + iota(9, 50), now);
    EXPECT_EQ(match.blocks[0].size(), 2U);
    cache.clear();
    EXPECT_EQ(kv.live_bytes(), 0);
  }
}

TEST_F(PrefixCacheTest, SharesBlocksOfCommonBeginnings) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(8) + iota(4, 100));
  donate(cache, iota(8) + iota(4, 200));
  EXPECT_EQ(cache.num_blocks(), 4);
  EXPECT_EQ(kv.live_bytes(), 4 * kv.layout().groups[0].block_bytes);
  EXPECT_EQ(found(cache, iota(8) + iota(2, 200) + iota(5)), 10);
}

TEST_F(PrefixCacheTest, ALongerTailReplacesAShorterOne) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(5));
  donate(cache, iota(7));
  EXPECT_EQ(cache.num_blocks(), 2);
  donate(cache, iota(6));  // part of what is there
  EXPECT_EQ(cache.num_blocks(), 2);
  donate(cache, iota(8));
  EXPECT_EQ(found(cache, iota(30)), 8);
}

TEST_F(PrefixCacheTest, ScopesNeverMeet) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(12), true, "template A");
  EXPECT_EQ(found(cache, iota(20), "template B"), 0);
  EXPECT_EQ(found(cache, iota(20), "template A"), 12);
  EXPECT_EQ(found(cache, iota(20), ""), 0);
}

TEST_F(PrefixCacheTest, MinimumPrefix) {
  PrefixCache cache(kv, {.min_tokens = 8});
  donate(cache, iota(7));
  EXPECT_EQ(cache.num_blocks(), 0);
  donate(cache, iota(20));
  EXPECT_EQ(found(cache, iota(7) + iota(9, 50)), 0);
  EXPECT_EQ(found(cache, iota(8) + iota(9, 50)), 8);
}

TEST_F(PrefixCacheTest, LeastRecentlyUsedLeavesGoFirst) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(8));
  donate(cache, iota(8, 100));
  EXPECT_EQ(found(cache, iota(9)), 8);
  EXPECT_TRUE(cache.evict_one());
  EXPECT_EQ(found(cache, iota(9, 100)), 4);  // its end went, and it is the last one used now
  EXPECT_TRUE(cache.evict_one());
  EXPECT_EQ(found(cache, iota(9)), 4);
  EXPECT_TRUE(cache.evict_one());
  EXPECT_TRUE(cache.evict_one());
  EXPECT_FALSE(cache.evict_one());
}

TEST_F(PrefixCacheTest, LimitsOfBytesEntriesAndAge) {
  const int64_t block = kv.layout().groups[0].block_bytes;
  PrefixCache bytes(kv, {.max_bytes = 5 * block, .min_tokens = 1});
  donate(bytes, iota(16));
  donate(bytes, iota(16, 100));
  EXPECT_LE(bytes.bytes(), 5 * block);
  EXPECT_EQ(found(bytes, iota(17, 100)), 16);
  donate(bytes, iota(400, 1000));  // larger than the cap: its beginning stays
  EXPECT_LE(bytes.bytes(), 5 * block);
  bytes.clear();

  PrefixCache entries(kv, {.max_entries = 2, .min_tokens = 1});
  for (int32_t i = 0; i < 5; ++i) donate(entries, iota(8, i * 100));
  EXPECT_EQ(entries.num_blocks(), 4);
  EXPECT_EQ(found(entries, iota(9, 200)), 0);
  EXPECT_EQ(found(entries, iota(9, 300)), 8);
  entries.clear();

  PrefixCache aging(kv, {.min_tokens = 1, .ttl_s = 60});
  donate(aging, iota(8));
  now += std::chrono::seconds(50);
  donate(aging, iota(8, 100));
  aging.expire(now);
  EXPECT_EQ(aging.num_blocks(), 4);
  now += std::chrono::seconds(20);
  aging.expire(now);
  EXPECT_EQ(found(aging, iota(9)), 0);
  EXPECT_EQ(found(aging, iota(9, 100)), 8);
}

TEST_F(PrefixCacheTest, BlocksInUseOutliveTheirEviction) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(10));
  const PrefixMatch match = cache.find("s", iota(20), now);
  CacheAllocation a;
  ASSERT_TRUE(kv.adopt(a, match.blocks, match.num_tokens, nullptr, 100));
  cache.clear();
  EXPECT_EQ(kv.live_bytes(), 3 * kv.layout().groups[0].block_bytes);
  kv.close(a);
  EXPECT_EQ(kv.live_bytes(), 0);
}

TEST_F(PrefixCacheTest, WithoutTailOnlyFullBlocksAreKept) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(10), false);
  EXPECT_EQ(found(cache, iota(20)), 8);
}

class WindowPrefixTest : public PrefixCacheTest {
 protected:
  WindowPrefixTest()
      : PrefixCacheTest({nn::CacheSpec::sliding(1, 1, 6), nn::CacheSpec::full(1, 1)}) {}
};

TEST_F(WindowPrefixTest, AWindowNeedsItsBlocks) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(40));
  EXPECT_EQ(cache.num_blocks(), 10);
  const PrefixMatch match = cache.find("s", iota(60), now);
  EXPECT_EQ(match.num_tokens, 40);
  EXPECT_EQ(match.blocks[0][0], kNoBlock);
  EXPECT_NE(match.blocks[0][9], kNoBlock);
  EXPECT_NE(match.blocks[1][0], kNoBlock);
  // In the middle of the stored prompt the window's blocks are gone.
  EXPECT_EQ(found(cache, iota(20) + iota(9, 500)), 0);
  donate(cache, iota(20));
  EXPECT_EQ(found(cache, iota(22) + iota(9, 500)), 20);
}

class SnapshotTest : public PrefixCacheTest {
 protected:
  SnapshotTest() : PrefixCacheTest(specs()) {}
  static std::vector<nn::CacheSpec> specs() {
    nn::CacheSpec recurrent{.kind = nn::CacheSpec::Kind::Recurrent};
    recurrent.state = {Shape{4}};
    return {recurrent, nn::CacheSpec::full(1, 1)};
  }
};

TEST_F(SnapshotTest, ContinuesOnlyWhereASnapshotIs) {
  PrefixCache cache(kv, {.min_tokens = 1});
  donate(cache, iota(10));
  EXPECT_EQ(found(cache, iota(20)), 10);
  EXPECT_EQ(found(cache, iota(10)), 0);
  EXPECT_EQ(found(cache, iota(9) + iota(5, 100)), 0);
  donate(cache, iota(8));
  EXPECT_EQ(found(cache, iota(9) + iota(5, 100)), 8);
  EXPECT_NE(cache.find("s", iota(20), now).state, nullptr);
}

TEST_F(SnapshotTest, SnapshotsHaveLimitsOfTheirOwn) {
  PrefixCache cache(kv, {.min_tokens = 1, .snapshot_max_entries = 2});
  for (int32_t i = 0; i < 3; ++i) donate(cache, iota(8, 100 * i));
  EXPECT_EQ(found(cache, iota(9)), 0);
  EXPECT_EQ(found(cache, iota(9, 100)), 8);
  PrefixCache small(kv, {.min_tokens = 1, .snapshot_max_bytes = 8});
  donate(small, iota(8));
  EXPECT_EQ(found(small, iota(9)), 0);
}

// A second turn finds the first one, through the engine.
TEST(PrefixReuse, AFollowUpTurnComputesOnlyWhatChanged) {
  using namespace testing;
  for (FakeConfig config : {FakeConfig{}, windowed_config(6), hybrid_config()}) {
    auto model = std::make_shared<FakeLm>(config);
    auto engine = Engine::start(model, plain_tokenizer(), test_options());
    Request turn = greedy(random_prompt(50, 1), 10);
    turn.stop_strings = {"never"};
    const Outcome first = run_one(*engine, turn);
    EXPECT_EQ(first.ids, expected_ids(*model, turn));
    EXPECT_EQ(first.done->num_cached, 0);
    Request next = turn;
    next.prompt.insert(next.prompt.end(), first.ids.begin(), first.ids.end());
    const auto question = random_prompt(7, 2);
    next.prompt.insert(next.prompt.end(), question.begin(), question.end());
    const Outcome second = run_one(*engine, next);
    EXPECT_EQ(second.ids, expected_ids(*model, next));
    EXPECT_EQ(second.done->num_cached, 59);  // all but the last token, which was never computed
    const Outcome again = run_one(*engine, turn);  // the same prompt once more
    EXPECT_EQ(again.ids, first.ids);
    EXPECT_GE(again.done->num_cached, 48);
    turn.use_prefix_cache = false;
    EXPECT_EQ(run_one(*engine, turn).done->num_cached, 0);
    turn.use_prefix_cache = true;
    turn.cache_scope = "another adapter";
    EXPECT_EQ(run_one(*engine, turn).done->num_cached, 0);
    EXPECT_EQ(run_one(*engine, turn).ids, first.ids);
    engine->check();
    engine->reset_prefix_cache();
    EXPECT_EQ(counter(*engine, "gauges", "kv_live_bytes"), 0);
    EXPECT_EQ(counter(*engine, "prefix_cache", "hits"), 3);
  }
}

}  // namespace
}  // namespace mlxcel::engine
