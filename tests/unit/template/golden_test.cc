// Every template of the collection over every conversation, and one case per language feature,
// against answers frozen by tools/reference/chat_templates.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cases.h"
#include "testing/paths.h"

namespace mlxcel::text {
namespace {

namespace fs = std::filesystem;

class Goldens : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Goldens, EveryTemplateRendersEveryConversation) {
  const Json shared = load_json(testing::data_path("chat-templates/conversations.json"));
  const int64_t now = shared.find("now")->as_int();
  int templates = 0, compared = 0, failed = 0;
  for (const auto& entry : fs::directory_iterator(testing::data_path("chat-templates/templates"))) {
    const std::string name = entry.path().stem().string();
    const std::string source = load_text(entry.path().string());
    const Json golden = load_json(testing::data_path("chat-templates/goldens/" + name + ".json"));
    ++templates;
    for (const Json& conversation : shared.find("conversations")->as_array()) {
      const std::string& title = conversation.find("name")->as_string();
      const Json* expected = golden.find(title);
      ASSERT_NE(expected, nullptr) << name << " " << title;
      const std::string problem = difference(source, *conversation.find("context"), now, *expected);
      ++compared;
      if (!problem.empty() && ++failed <= 10)
        ADD_FAILURE() << name << ", " << title << "\n" << problem;
    }
  }
  EXPECT_EQ(failed, 0) << "of " << compared;
  EXPECT_GE(templates, 34);
  EXPECT_GE(compared, 34 * 15);
}

TEST_F(Goldens, EveryFeatureOfTheLanguage) {
  const Json file = load_json(testing::data_path("chat-templates/features.json"));
  int compared = 0, failed = 0;
  for (const Json& item : file.find("cases")->as_array()) {
    const std::string& source = item.find("template")->as_string();
    const std::string problem =
        difference(source, *file.find("context"), file.find("now")->as_int(), item);
    ++compared;
    if (!problem.empty() && ++failed <= 200) ADD_FAILURE() << source << "\n" << problem;
  }
  EXPECT_EQ(failed, 0) << "of " << compared;
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace mlxcel::text
