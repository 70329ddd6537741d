#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"

namespace mlxcel {
namespace {

class BufferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Buffer::trim_host_cache();
    before_ = Buffer::host_stats();
  }
  int64_t live() const { return Buffer::host_stats().live_bytes - before_.live_bytes; }
  static int64_t cached() { return Buffer::host_stats().cached_bytes; }
  Buffer::Stats before_;
};

TEST_F(BufferTest, HostBlocksAreAlignedWritableAndCounted) {
  for (const int64_t bytes : {0, 1, 63, 64, 65, 1000, 1 << 20}) {
    const auto b = Buffer::host(bytes);
    ASSERT_NE(b->data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 64, 0U);
    EXPECT_EQ(b->size(), bytes);
    EXPECT_TRUE(b->writable());
    EXPECT_EQ(b->device(), Device{});
    std::memset(b->data(), 0xAB, static_cast<size_t>(bytes));
    // At most a quarter more than was asked for, but for the alignment.
    EXPECT_GE(live(), bytes);
    EXPECT_LE(live(), bytes + bytes / 4 + 64);
  }
  EXPECT_EQ(live(), 0);
}

TEST_F(BufferTest, FreedBlocksComeBackAndTrimReturnsThem) {
  const void* first = nullptr;
  {
    const auto b = Buffer::host(100'000);
    first = b->data();
  }
  EXPECT_EQ(live(), 0);
  EXPECT_GE(cached(), 100'000);
  const auto again = Buffer::host(99'990);  // of the same size class
  EXPECT_EQ(again->data(), first);
  EXPECT_EQ(cached(), 0);
  const auto other = Buffer::host(100'000);
  EXPECT_NE(other->data(), first);
  EXPECT_GE(Buffer::host_stats().peak_live_bytes, before_.live_bytes + 200'000);
  {
    const auto third = Buffer::host(5000);
  }
  EXPECT_GE(cached(), 5000);
  Buffer::trim_host_cache();
  EXPECT_EQ(cached(), 0);
}

TEST_F(BufferTest, LargeBlocksAreNotKept) {
  {
    const auto b = Buffer::host(int64_t{80} << 20);
  }
  EXPECT_EQ(cached(), 0);
}

TEST_F(BufferTest, TheCacheHasALimit) {
  std::vector<std::shared_ptr<Buffer>> many;
  for (int i = 0; i < 12; ++i) many.push_back(Buffer::host(int64_t{32} << 20));
  many.clear();
  EXPECT_LE(cached(), int64_t{256} << 20);
  EXPECT_GT(cached(), 0);
  Buffer::trim_host_cache();
}

TEST_F(BufferTest, ImpossibleSizesAreNamed) {
  for (const int64_t bytes : {int64_t{-1}, INT64_MIN, INT64_MAX, (int64_t{1} << 46) + 1}) {
    try {
      (void)Buffer::host(bytes);
      ADD_FAILURE() << bytes;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::ResourceExhausted);
      EXPECT_NE(e.message().find(std::to_string(bytes)), std::string::npos);
    }
  }
  EXPECT_EQ(live(), 0);
}

TEST_F(BufferTest, BorrowedMemoryIsReadOnlyAndKeptAlive) {
  auto owner = std::make_shared<std::array<std::byte, 16>>();
  const std::weak_ptr<void> watch = owner;
  auto b = Buffer::borrow(*owner, owner);
  EXPECT_EQ(b->data(), owner->data());
  EXPECT_EQ(b->size(), 16);
  EXPECT_FALSE(b->writable());
  owner.reset();
  EXPECT_FALSE(watch.expired());
  b.reset();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(live(), 0);
}

TEST_F(BufferTest, AdoptedMemoryIsReleasedOnce) {
  struct Seen {
    void* data = nullptr;
    int times = 0;
  } seen;
  int memory = 0;
  {
    const auto b = Buffer::adopt(
        &memory, sizeof memory, {DeviceKind::Cuda, 1},
        [](void* data, void* context) {
          static_cast<Seen*>(context)->data = data;
          ++static_cast<Seen*>(context)->times;
        },
        &seen);
    EXPECT_EQ(b->device(), (Device{DeviceKind::Cuda, 1}));
    EXPECT_EQ(seen.times, 0);
  }
  EXPECT_EQ(seen.times, 1);
  EXPECT_EQ(seen.data, &memory);
}

TEST_F(BufferTest, ThreadsAllocateAndFree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const auto b = Buffer::host(64 + (i * 37 + t) % 5000);
        std::memset(b->data(), t, static_cast<size_t>(b->size()));
        const auto* bytes = static_cast<const unsigned char*>(b->data());
        EXPECT_EQ(bytes[b->size() - 1], t);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(live(), 0);
}

}  // namespace
}  // namespace mlxcel
