// The tables of serve's flags: complete, without repetition, and strict about values.
#include "apps/serve_flags.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <string>

#include "base/error.h"
#include "testing/paths.h"

namespace mlxcel::apps {
namespace {

/// Adds the names of "-a,--long,!--no-long" and returns whether all were new.
bool add_names(std::string_view list, std::set<std::string>& names) {
  bool fresh = true;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    if (name.starts_with('!')) name.remove_prefix(1);
    fresh = names.emplace(name).second && fresh;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return fresh;
}

TEST(ServeFlags, EveryDocumentedFlagStandsInOneTable) {
  std::set<std::string> names;
  for (const ServeFlag& f : serve_flags()) EXPECT_TRUE(add_names(f.names, names)) << f.names;
  for (const UnavailableFlag& f : unavailable_serve_flags()) {
    EXPECT_TRUE(add_names(f.names, names)) << f.names;
  }
  for (const RefusedFlag& f : refused_serve_flags()) {
    EXPECT_TRUE(add_names(f.names, names)) << f.names;
  }
  for (const UnavailableFlag& f : idle_serve_flags()) {
    EXPECT_TRUE(add_names(f.names, names)) << f.names;
  }
  std::ifstream documented(testing::data_path("cli/serve_flags.txt"));
  int count = 0;
  for (std::string flag; documented >> flag; ++count) EXPECT_TRUE(names.contains(flag)) << flag;
  EXPECT_GT(count, 200);
}

TEST(ServeFlags, EveryRangeHasAnEnd) {
  // A flag that takes whatever text it is given must be one whose value is a text.
  const std::set<std::string> texts = {
      "PATH_OR_REPO_ID", "OWNER/NAME", "FILE",   "REV",  "TOKEN",   "PATH",
      "NAMES",           "LIST",       "ADDR",   "KEYS", "ORIGINS", "VALUE",
      "TEMPLATE",        "JSON",       "STRING", "TEXT"};
  for (const ServeFlag& f : serve_flags()) {
    if (f.type != nullptr && texts.contains(f.type)) continue;
    ServeArguments arguments;
    EXPECT_THROW(f.set(arguments, {f.names, "nonsense"}), Error) << f.names;
  }
}

TEST(ServeFlags, ShortNamesOfLlamaServer) {
  EXPECT_EQ(canonical_flag("-ngl"), "--n-gpu-layers");
  EXPECT_EQ(canonical_flag("-np=4"), "--parallel=4");
  EXPECT_EQ(canonical_flag("-c"), "-c");
  EXPECT_EQ(canonical_flag("-1"), "-1");
}

TEST(ServeFlags, Values) {
  const auto value = [](const char* text) { return FlagValue{"--x", text}; };
  EXPECT_EQ(value("-1").integer(-1, 5), -1);
  EXPECT_EQ(value("2GB").bytes(), int64_t{2} << 30);
  EXPECT_TRUE(value("ON").boolean());
  EXPECT_FALSE(value("disabled").boolean());
  for (const char* bad : {"", " 1", "1 ", "0x1", "1.5", "9999999999999999999", "6"}) {
    EXPECT_THROW(value(bad).integer(-1, 5), Error) << bad;
  }
  for (const char* bad : {"", "nan", "inf", "1e999", "x", "2"}) {
    EXPECT_THROW(value(bad).number(0, 1), Error) << bad;
  }
}

}  // namespace
}  // namespace mlxcel::apps
