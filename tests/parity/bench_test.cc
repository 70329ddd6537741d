// mlxcel bench on the story model: every test is measured, numbers are whole and consistent.
#include "base/json.h"
#include "cli_fixture.h"

namespace mlxcel {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::ProcessResult;

using BenchCommand = CliTest;

TEST_F(BenchCommand, JsonHasEveryTestWithItsRates) {
  const ProcessResult r = mlxcel({"bench", "-m", story(), "-p", "0,16", "-n", "8,4", "-b", "1,2",
                                  "-t", "1", "-r", "2", "--json"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const Json report = Json::parse(r.out).value();
  EXPECT_GT(report.find("ceilings")->as_array()[0].find("read_gb_s")->as_double(), 0);
  const auto& results = report.find("results")->as_array();
  ASSERT_EQ(results.size(), 6U);
  for (const Json& test : results) {
    EXPECT_EQ(test.find("repetitions")->as_array().size(), 2U);
    EXPECT_GT(test.find("tokens_per_second")->as_double(), 0);
    EXPECT_EQ(test.find("threads")->as_int(), 1);
    if (test.find("kind")->as_string() == "decode") {
      EXPECT_GT(test.find("share_of_ceiling")->as_double(), 0);
    }
  }
}

TEST_F(BenchCommand, TableHasARowForEachTest) {
  const ProcessResult r =
      mlxcel({"bench", "-m", story(), "-p", "16", "-n", "8", "-t", "1", "-r", "1"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, ContainsRegex("\\| pp16 \\| 1 \\| 1 \\| [0-9]+\\.[0-9] \\|"));
  EXPECT_THAT(r.out, ContainsRegex("\\| tg8 \\| 1 \\| 1 \\| [0-9]+\\.[0-9] \\|"));
}

TEST_F(BenchCommand, WrongArgumentsAreNamed) {
  EXPECT_THAT(error({"bench"}), HasSubstr("either a model with -m"));
  EXPECT_THAT(error({"bench", "kernels", "-m", "x"}), HasSubstr("either a model with -m"));
  EXPECT_THAT(error({"bench", "-m", "x", "-b", "0"}), HasSubstr("--batch: 0 is not in 1..1024"));
}

}  // namespace
}  // namespace mlxcel
