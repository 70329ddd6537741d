#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace mlxcel {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { log::set_level(log::Level::Warn); }
};

TEST_F(LogTest, WritesOneLineFromTheLevelUp) {
  log::set_level(log::Level::Info);
  CaptureStderr();
  log::debug("hidden {}", 1);
  log::info("shown {}", 2);
  log::error("shown {}", 3);
  const std::string out = GetCapturedStderr();
  EXPECT_THAT(out, HasSubstr("[info] shown 2\n"));
  EXPECT_THAT(out, HasSubstr("[error] shown 3\n"));
  EXPECT_EQ(out.find("hidden"), std::string::npos);
}

TEST_F(LogTest, OffSilencesErrors) {
  log::set_level(log::Level::Off);
  EXPECT_FALSE(log::enabled(log::Level::Error));
  CaptureStderr();
  log::error("hidden");
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST_F(LogTest, BracesInATextAreNotAFormat) {
  CaptureStderr();
  log::write(log::Level::Warn, "a {} b {0} {");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("a {} b {0} {\n"));
}

// The variable is read once in a process, so each value gets a process of its own.
class LogDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  [[noreturn]] static void log_all_with(const char* value) {
    ::setenv("MLXCEL_LOG", value, 1);
    log::debug("D");
    log::info("I");
    log::warn("W");
    log::error("E");
    std::exit(0);
  }
};

TEST_F(LogDeathTest, VariableSetsTheLevel) {
  EXPECT_EXIT(log_all_with("debug"), ::testing::ExitedWithCode(0), "\\[debug\\] D");
  EXPECT_EXIT(log_all_with("error"), ::testing::ExitedWithCode(0), "^\\[[^\n]*\\[error\\] E\n$");
  EXPECT_EXIT(log_all_with("off"), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDeathTest, UnknownLevelIsNamedAndWarningsStayOn) {
  EXPECT_EXIT(log_all_with("loud"), ::testing::ExitedWithCode(0),
              "MLXCEL_LOG[^\n]*'loud'\n[^\n]*\\] W\n[^\n]*\\] E\n$");
}

}  // namespace
}  // namespace mlxcel
