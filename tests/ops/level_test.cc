// MLXCEL_CPU_ISA, read once a process: each case runs in a child of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "ops/isa.h"
#include "ops/ops.h"

namespace mlxcel::testing {
namespace {

// Ends the child: prints the level in use, or the error with its code.
[[noreturn]] void report_level(const char* wanted) {
  ::setenv("MLXCEL_CPU_ISA", wanted, 1);
  try {
    std::fprintf(stderr, "level %s", ops::cpu_isa().c_str());
  } catch (const Error& e) {
    std::fprintf(stderr, "%s: %s", std::string(code_name(e.code())).c_str(), e.what());
  }
  std::_Exit(0);
}

class CpuIsa : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using CpuIsaDeathTest = CpuIsa;

TEST_F(CpuIsaDeathTest, EveryLevelOfThisMachineCanBeNamed) {
  for (const ops::Isa isa : ops::available_cpu_isas()) {
    const std::string name(ops::isa_name(isa));
    EXPECT_EXIT(report_level(name.c_str()), ::testing::ExitedWithCode(0), "^level " + name + "$");
  }
}

TEST_F(CpuIsaDeathTest, EmptyMeansTheHighestLevel) {
  const std::string best(ops::isa_name(ops::available_cpu_isas().back()));
  EXPECT_EXIT(report_level(""), ::testing::ExitedWithCode(0), "^level " + best + "$");
}

TEST_F(CpuIsaDeathTest, LevelsThatThisMachineLacksAreNamed) {
  // A level of another architecture, of a GPU, no level at all, and a wrong case.
#if defined(__x86_64__)
  const char* foreign = "neon";
#else
  const char* foreign = "avx2";
#endif
  for (const char* wanted : {foreign, "sm90", "avx3", "AVX2", " scalar", "scalar,avx2", "%s%n"}) {
    EXPECT_EXIT(report_level(wanted), ::testing::ExitedWithCode(0),
                "^invalid_argument: environment variable MLXCEL_CPU_ISA: '" + std::string(wanted) +
                    "' is not a level of this machine; it has scalar");
  }
}

TEST(CpuLevel, OnlyLevelsOfThisMachineCanBeSet) {
  const ops::Isa before = ops::cpu_level();
  for (const ops::Isa isa : ops::available_cpu_isas()) {
    ops::set_cpu_level(isa);
    EXPECT_EQ(ops::cpu_level(), isa);
  }
  EXPECT_THROW(ops::set_cpu_level(ops::Isa::Sm90), Error);
  ops::set_cpu_level(before);
}

}  // namespace
}  // namespace mlxcel::testing
