#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace mlxcel {
namespace {

TEST(ThreadPool, CoversEveryItemOnceInRangesOfWholeGrains) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 8, 63, 1000}) {
      for (const int64_t grain : {1, 3, 16}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
        std::atomic<int> ranges{0};
        pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          ranges.fetch_add(1);
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end == count || end % grain == 0);
          for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)].fetch_add(1);
        });
        EXPECT_LE(ranges.load(), threads);
        for (const auto& h : hits) EXPECT_EQ(h.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, ManyGenerationsLoseNoWakeUp) {
  ThreadPool pool(4);
  std::atomic<int64_t> total{0};
  for (int i = 0; i < 300; ++i) {
    pool.parallel_for(4, 1, [&](int64_t begin, int64_t end) { total.fetch_add(end - begin); });
    // Now and then the workers have time to fall asleep.
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(total.load(), 1200);
}

TEST(ThreadPool, SharesOfThreadsWithoutAProcessorRunOnce) {
  // Far more threads than processors: most shares are taken over by the caller, and late workers
  // find them gone.
  ThreadPool pool(48);
  std::vector<int> hits(48);
  for (int i = 0; i < 2000; ++i) {
    pool.parallel_for(48, 1, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) ++hits[static_cast<size_t>(j)];
    });
  }
  for (const int h : hits) EXPECT_EQ(h, 2000);
}

TEST(ThreadPool, FirstExceptionReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(3);
  for (int i = 0; i < 50; ++i) {
    EXPECT_THROW(pool.parallel_for(3, 1, [](int64_t, int64_t) { throw std::runtime_error("x"); }),
                 std::runtime_error);
    EXPECT_THROW(pool.parallel_for(3, 1,
                                   [](int64_t begin, int64_t) {
                                     if (begin == 2) throw std::runtime_error("only one");
                                   }),
                 std::runtime_error);
    std::atomic<int> done{0};
    pool.parallel_for(3, 1, [&](int64_t, int64_t) { done.fetch_add(1); });
    EXPECT_EQ(done.load(), 3);
  }
}

TEST(ThreadPool, NestedCallsRunInTheCallingThread) {
  ThreadPool pool(4);
  std::atomic<int64_t> inner{0};
  pool.parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto self = std::this_thread::get_id();
      pool.parallel_for(10, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        inner.fetch_add(e - b);
      });
    }
  });
  EXPECT_EQ(inner.load(), 80);
}

TEST(ThreadPool, CallersWaitForOneAnother) {
  ThreadPool pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        pool.parallel_for(10, 1, [&](int64_t b, int64_t e) { total.fetch_add(e - b); });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total.load(), 6000);
}

// More threads than processors, callers that come late and early: every wait ends, asleep or not.
TEST(ThreadPool, SleepingCallersAndWorkersAreWoken) {
  ThreadPool pool(6);
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) {
    pool.parallel_for(6, 1, [&](int64_t begin, int64_t) {
      // The caller's share ends at once, or last.
      if ((begin == 0) == (i % 2 == 0)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done.fetch_add(1);
    });
    EXPECT_EQ(done.load(), 6 * (i + 1));
  }
}

TEST(ThreadPool, TheSharedPoolCanBeReplaced) {
  ThreadPool mine(3);
  ThreadPool* before = ThreadPool::replace_shared(&mine);
  EXPECT_EQ(&ThreadPool::shared(), &mine);
  EXPECT_EQ(ThreadPool::replace_shared(before), &mine);
  EXPECT_NE(&ThreadPool::shared(), &mine);
}

// No assertion on time: the machine may be loaded. The numbers are for thread_pool.h.
TEST(ThreadPool, CostOfALoop) {
  using Clock = std::chrono::steady_clock;
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::vector<double> times;
    for (int i = 0; i < 500; ++i) {
      const auto start = Clock::now();
      pool.parallel_for(threads, 1, [](int64_t, int64_t) {});
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::sort(times.begin(), times.end());
    RecordProperty("microseconds_" + std::to_string(threads), std::to_string(times[250]));
    std::printf("%d threads: median %.1f us, best %.1f us, worst %.0f us\n", threads, times[250],
                times[0], times[499]);
    EXPECT_EQ(times.size(), 500U);
  }
}

}  // namespace
}  // namespace mlxcel
