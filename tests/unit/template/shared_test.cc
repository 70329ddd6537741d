// The shared end-to-end cases, where they are at hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cases.h"
#include "testing/paths.h"
#include "text/chat_template.h"

namespace mlxcel::text {
namespace {

namespace fs = std::filesystem;

/// Seconds of an ISO time such as "2025-06-26T00:00:00" read as UTC; also plain numbers.
int64_t seconds_of(const Json& now) {
  if (now.is_number()) return static_cast<int64_t>(now.as_double());
  std::tm parts{};
  EXPECT_NE(strptime(now.as_string().c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr)
      << now.as_string();
  return timegm(&parts);
}

TEST(SharedCases, ExpectedTextExactly) {
  const std::string folder = testing::shared_path("jinja");
  if (folder.empty() || !fs::exists(folder)) GTEST_SKIP() << "the shared data is not here";
  setenv("TZ", "UTC", 1);
  tzset();
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const Json item = load_json(entry.path().string());
    const Json* now = item.find("now");
    const auto parsed = ChatTemplate::parse(item.find("template")->as_string());
    ASSERT_TRUE(parsed.ok()) << entry.path() << parsed.error().message();
    const auto text =
        parsed.value().render(*item.find("context"), now == nullptr ? 0 : seconds_of(*now));
    ASSERT_TRUE(text.ok()) << entry.path() << text.error().message();
    EXPECT_EQ(text.value(), item.find("expected")->as_string()) << entry.path();
    ++cases;
  }
  EXPECT_EQ(cases, 36);
}

}  // namespace
}  // namespace mlxcel::text
