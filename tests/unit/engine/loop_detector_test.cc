#include "engine/loop_detector.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace mlxcel::engine {
namespace {

using Tokens = std::vector<text::TokenId>;

TEST(LoopDetector, FindsRepetitionsAtTheEndOnly) {
  const LoopDetection loop{.min_pattern_size = 2, .max_pattern_size = 3, .min_count = 3};
  EXPECT_FALSE(ends_in_loop(Tokens{}, loop));
  EXPECT_FALSE(ends_in_loop(Tokens{1, 2, 1, 2}, loop));
  EXPECT_TRUE(ends_in_loop(Tokens{1, 2, 1, 2, 1, 2}, loop));
  EXPECT_TRUE(ends_in_loop(Tokens{9, 9, 4, 1, 2, 1, 2, 1, 2}, loop));
  EXPECT_FALSE(ends_in_loop(Tokens{1, 2, 1, 2, 1, 2, 3}, loop));
  EXPECT_TRUE(ends_in_loop(Tokens{1, 2, 3, 1, 2, 3, 1, 2, 3}, loop));
  EXPECT_FALSE(ends_in_loop(Tokens{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, loop));
  EXPECT_TRUE(ends_in_loop(Tokens{5, 5, 5, 5, 5, 5}, loop));  // as the pattern 5 5
  EXPECT_FALSE(ends_in_loop(Tokens{5, 5, 5, 5, 5}, loop));
  EXPECT_FALSE(ends_in_loop(Tokens{5, 5, 5, 5, 5, 5}, {}));
}

TEST(LoopDetector, ReadsTheSpellingsOfTheEnvironment) {
  EXPECT_FALSE(parse_loop_detection("off").enabled());
  const LoopDetection on = parse_loop_detection("on");
  EXPECT_EQ(on.min_pattern_size, 1);
  EXPECT_EQ(on.max_pattern_size, 20);
  EXPECT_EQ(on.min_count, 12);
  const LoopDetection own = parse_loop_detection("2,30,4");
  EXPECT_EQ(own.min_pattern_size, 2);
  EXPECT_EQ(own.max_pattern_size, 30);
  EXPECT_EQ(own.min_count, 4);
  for (const char* bad : {"", "yes", "1", "1,2", "1,2,3,", "1,2,3,4", "a,2,3", "0,2,3", "3,2,3",
                          "1,2,1", "1,9999999999,3", "-1,2,3"}) {
    EXPECT_THROW(parse_loop_detection(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace mlxcel::engine
