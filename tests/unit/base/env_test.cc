#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace mlxcel {
namespace {

constexpr const char* kName = "MLXCEL_ENV_TEST";

/// Sets the variable for one scope; null unsets it.
class ScopedEnv {
 public:
  explicit ScopedEnv(const char* value) {
    if (value == nullptr)
      ::unsetenv(kName);
    else
      ::setenv(kName, value, 1);
  }
  ~ScopedEnv() { ::unsetenv(kName); }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
};

TEST(Env, UnsetAndEmptyAreNoValue) {
  {
    const ScopedEnv unset(nullptr);
    EXPECT_FALSE(env::present(kName));
    EXPECT_EQ(env::get(kName), std::nullopt);
    EXPECT_EQ(env::get_int(kName), std::nullopt);
    EXPECT_EQ(env::get_bool(kName), std::nullopt);
  }
  const ScopedEnv empty("");
  EXPECT_TRUE(env::present(kName));
  EXPECT_EQ(env::get(kName), std::nullopt);
  EXPECT_EQ(env::get_int(kName), std::nullopt);
  EXPECT_EQ(env::get_bool(kName), std::nullopt);
}

TEST(Env, ReadsIntegers) {
  for (const auto& [text, value] : {std::pair{"0", int64_t{0}},
                                    {"-7", -7},
                                    {"9223372036854775807", INT64_MAX},
                                    {"-9223372036854775808", INT64_MIN}}) {
    const ScopedEnv set(text);
    EXPECT_EQ(env::get_int(kName), value) << text;
  }
}

TEST(Env, BadIntegerIsAnErrorThatNamesTheVariable) {
  for (const char* text :
       {"x", "1x", "1.5", " 1", "1 ", "0x10", "9223372036854775808", "-", "+1"}) {
    const ScopedEnv set(text);
    try {
      (void)env::get_int(kName);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      EXPECT_NE(e.message().find(kName), std::string::npos) << e.message();
    }
  }
}

TEST(Env, ReadsBooleansInAnyCase) {
  for (const char* text : {"1", "true", "TRUE", "On", "yes"}) {
    const ScopedEnv set(text);
    EXPECT_EQ(env::get_bool(kName), true) << text;
  }
  for (const char* text : {"0", "false", "False", "OFF", "no"}) {
    const ScopedEnv set(text);
    EXPECT_EQ(env::get_bool(kName), false) << text;
  }
  for (const char* text : {"2", "tru", "y", "-1"}) {
    const ScopedEnv set(text);
    EXPECT_THROW((void)env::get_bool(kName), Error) << text;
  }
}

TEST(ParseSize, AcceptsUnitsOfBinaryBytes) {
  constexpr int64_t kMi = int64_t{1} << 20;
  constexpr int64_t kGi = int64_t{1} << 30;
  for (const auto& [text, bytes] : {std::pair{"96GB", 96 * kGi},
                                    {"1.5G", kGi + kGi / 2},
                                    {"512M", 512 * kMi},
                                    {"512mb", 512 * kMi},
                                    {"64K", int64_t{64} << 10},
                                    {"1T", int64_t{1} << 40},
                                    {"1024", 1024},
                                    {"1024B", 1024},
                                    {"0", 0},
                                    {"none", 0}}) {
    EXPECT_EQ(env::parse_size(text), bytes) << text;
  }
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "G", "-1", "-1G", "1X", "1GBB", "1 2", "1e300", "1e30G", "nan",
                           "inf", "99999999999999999999", "8388608T", "0x10", "max"}) {
    EXPECT_THROW((void)env::parse_size(text), Error) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace mlxcel
