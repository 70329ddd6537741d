#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"

namespace mlxcel::engine {
namespace {

TEST(BlockPool, MintsLowestFirstAndReusesLastFreed) {
  BlockPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_TRUE(pool.drop(0));
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), std::nullopt);
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPool, SharedBlocksAreNotExclusive) {
  BlockPool pool(2);
  const BlockId id = *pool.take();
  EXPECT_TRUE(pool.exclusive(id));
  pool.share(id);
  EXPECT_FALSE(pool.exclusive(id));
  EXPECT_FALSE(pool.drop(id));
  EXPECT_TRUE(pool.exclusive(id));
  EXPECT_TRUE(pool.drop(id));
  EXPECT_THROW(pool.drop(id), Error);
  EXPECT_THROW(pool.share(id), Error);
  EXPECT_THROW(pool.refs(7), Error);
}

TEST(BlockPool, RunsAreConsecutive) {
  BlockPool pool(10);
  for (int i = 0; i < 6; ++i) pool.take();
  for (const BlockId id : {1, 2, 5}) pool.drop(id);
  EXPECT_EQ(pool.take_run(2), 1);
  EXPECT_EQ(pool.take_run(4), 5);  // joins the freed block 5 with new ones
  EXPECT_EQ(pool.take_run(2), std::nullopt);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.take(), 9);
}

TEST(BlockPool, RandomOperationsAgreeWithAMap) {
  std::mt19937 random(7);
  BlockPool pool(40);
  std::map<BlockId, int> model;
  const auto any = [&] { return std::next(model.begin(), random() % model.size())->first; };
  for (int step = 0; step < 20000; ++step) {
    const auto op = random() % 10;
    if (op < 4) {
      const auto id = pool.take();
      EXPECT_EQ(id.has_value(), model.size() < 40);
      if (id) {
        EXPECT_TRUE(model.emplace(*id, 1).second);
      }
    } else if (op == 4) {
      const auto count = static_cast<int32_t>(1 + random() % 6);
      const auto id = pool.take_run(count);
      for (int32_t i = 0; id && i < count; ++i) EXPECT_TRUE(model.emplace(*id + i, 1).second);
    } else if (model.empty()) {
      continue;
    } else if (op == 5) {
      const BlockId id = any();
      pool.share(id);
      ++model[id];
    } else {
      const BlockId id = any();
      EXPECT_EQ(pool.drop(id), model[id] == 1);
      if (--model[id] == 0) model.erase(id);
    }
    ASSERT_EQ(pool.num_live(), static_cast<int32_t>(model.size()));
  }
  for (const auto& [id, refs] : model) EXPECT_EQ(pool.refs(id), refs);
}

}  // namespace
}  // namespace mlxcel::engine
