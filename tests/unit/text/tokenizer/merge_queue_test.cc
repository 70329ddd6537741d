#include "text/merge_queue.h"

#include <gtest/gtest.h>

#include <random>

namespace mlxcel::text {
namespace {

TEST(MergeQueue, BucketsGiveTheOrderOfTheHeap) {
  std::mt19937 random(7);
  for (const uint32_t ranks : {1U, 3U, 50U, 1000U}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<uint64_t> storage;
      MergeHeap heap(storage);
      RankBuckets buckets(ranks, 100);
      const auto some_merge = [&] {
        return Merge{static_cast<uint32_t>(random() % ranks),
                     static_cast<uint32_t>(random() % 500)};
      };
      for (int i = 0; i < 100; ++i) {
        const Merge m = some_merge();
        heap.append(m);
        buckets.append(m);
      }
      heap.ordered();
      buckets.ordered();
      int pushes = 300;
      while (!heap.empty()) {
        ASSERT_FALSE(buckets.empty());
        const Merge a = heap.pop(), b = buckets.pop();
        ASSERT_EQ(a.rank, b.rank);
        ASSERT_EQ(a.position, b.position);
        // New merges of any rank: below, equal to and above the one just taken.
        for (; pushes > 0 && random() % 2 == 0; --pushes) {
          const Merge m = some_merge();
          heap.push(m);
          buckets.push(m);
        }
      }
      EXPECT_TRUE(buckets.empty());
    }
  }
}

}  // namespace
}  // namespace mlxcel::text
