#include "engine/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace mlxcel::engine {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers published with Random123 (kat_vectors, philox 4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformUsesTheWholeSeedAndCounter) {
  std::set<double> seen;
  for (const uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const uint64_t counter : {0ULL, 1ULL, 1ULL << 32}) {
      const double u = philox_uniform(seed, counter);
      EXPECT_GE(u, 0.0);
      EXPECT_LT(u, 1.0);
      EXPECT_EQ(u, philox_uniform(seed, counter));
      seen.insert(u);
    }
  }
  EXPECT_EQ(seen.size(), 9U);
}

TEST(Philox, UniformHasTheRightMoments) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 200000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = philox_uniform(42, static_cast<uint64_t>(i));
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.003);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.003);
}

}  // namespace
}  // namespace mlxcel::engine
