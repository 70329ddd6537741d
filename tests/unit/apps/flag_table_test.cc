// Every documented flag of the commands is either taken or refused by name.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/command_line.h"
#include "apps/unavailable.h"
#include "testing/paths.h"

namespace mlxcel::apps {
namespace {

using ::testing::HasSubstr;

struct Row {
  std::string command, flag;
};

/// The long flags of a command in the documented table.
std::vector<Row> documented_flags() {
  std::ifstream file(testing::data_path("cli/flags.txt"));
  std::vector<Row> rows;
  for (std::string command, flag; file >> command >> flag;) rows.push_back({command, flag});
  return rows;
}

std::vector<std::string> base_arguments(const std::string& command) {
  if (command == "run") return {"run", "m"};
  if (command == "download" || command == "rm") return {command, "o/n"};
  if (command == "generate" || command == "inspect") return {command, "-m", "m"};
  return {command};
}

TEST(FlagTable, EveryDocumentedFlagIsKnown) {
  const std::vector<Row> rows = documented_flags();
  ASSERT_GT(rows.size(), 100U);
  for (const auto& [command, flag] : rows) {
    std::vector<std::string> arguments = base_arguments(command);
    arguments.push_back(flag);
    const std::string alone = parse_command_line(arguments).err;
    arguments.push_back("1");
    const std::string with_value = parse_command_line(arguments).err;
    for (const std::string& err : {alone, with_value}) {
      EXPECT_EQ(err.find(fmt::format("The following argument was not expected: {}", flag)),
                std::string::npos)
          << command << ' ' << flag << ": " << err;
    }
  }
}

TEST(FlagTable, UnavailableFlagsAreRefusedByName) {
  const auto check = [](const std::string& command, std::span<const UnavailableFlag> flags) {
    for (const UnavailableFlag& flag : flags) {
      std::vector<std::string> arguments = base_arguments(command);
      arguments.emplace_back(flag.names);
      if (flag.value != UnavailableFlag::Value::None) arguments.emplace_back("1");
      const ParsedCommandLine line = parse_command_line(arguments);
      EXPECT_EQ(line.exit_code, 2);
      EXPECT_THAT(line.err,
                  HasSubstr(fmt::format("error: {} is not available in this build", flag.names)));
    }
  };
  check("generate", unavailable_generate_flags());
  check("run", unavailable_run_flags());
  check("inspect", unavailable_inspect_flags());
}

TEST(FlagTable, UnavailableCacheModesAreRefusedByName) {
  for (const char* mode : {"int8", "turbo4", "fp16+turbo3"}) {
    const ParsedCommandLine line =
        parse_command_line({"generate", "-m", "m", "--kv-cache-mode", mode});
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.err, HasSubstr(fmt::format("--kv-cache-mode {} is not available", mode)));
  }
  EXPECT_TRUE(parse_command_line({"generate", "-m", "m", "--cache-type-k", "fp16"}).command);
  EXPECT_THAT(parse_command_line({"run", "m", "--cache-type-v", "fp8"}).err,
              HasSubstr("unknown value 'fp8'"));
}

TEST(FlagTable, UnavailableCommandsAreRefusedByName) {
  for (const std::string_view name : unavailable_commands()) {
    const ParsedCommandLine line =
        parse_command_line({std::string(name), "-m", "x", "--anything", "else"});
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_THAT(line.err, HasSubstr(fmt::format("'{}' is not available in this build", name)));
  }
}

}  // namespace
}  // namespace mlxcel::apps
