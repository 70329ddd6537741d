#include "base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.h"

namespace mlxcel {
namespace {

using ::testing::MatchesRegex;

TEST(Version, IsTheOneInTheFile) {
  EXPECT_EQ(std::string(version()) + "\n", read_file(std::string(MLXCEL_SOURCE_DIR) + "/VERSION"));
}

TEST(Version, SaysWhatTheBuildWas) {
  EXPECT_THAT(std::string(commit()), MatchesRegex("unknown|[0-9a-f]{12}(-dirty)?"));
  EXPECT_NE(build_type(), "");
  EXPECT_THAT(std::string(compiler()), MatchesRegex("(GNU|Clang|AppleClang) [0-9.]+"));
}

}  // namespace
}  // namespace mlxcel
