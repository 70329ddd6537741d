// Defaults of requests that change while the server runs.
#include "serve/settings.h"

#include <gmock/gmock.h>

namespace mlxcel::serve {
namespace {

Json parse(const char* text) { return Json::parse(text).value(); }

class SettingsTest : public ::testing::Test {
 protected:
  SettingsStore store_{RequestDefaults{}, parse(R"({"port": 8080})")};
  double temperature() const { return store_.get()->sampling.temperature; }
};

TEST_F(SettingsTest, EverySettingTakesItsOwnValue) {
  const Json before = store_.json();
  Json same = Json::object();
  for (const auto& [name, schema] : before.find("schema")->as_object()) {
    if (schema.find("mutable")->as_bool()) same.set(name, *before.find("current")->find(name));
  }
  EXPECT_GT(same.size(), 23U);
  const Json after = store_.patch(same).value();
  EXPECT_EQ(after.find("rejected")->size(), 0U) << after.dump();
  EXPECT_EQ(*after.find("fingerprint"), *before.find("fingerprint"));
}

TEST_F(SettingsTest, WrongValuesAreReportedAndChangeNothing) {
  const Json out = store_
                       .patch(parse(R"({"default_top_p": 2, "default_top_k": 1.5, "port": 1,
      "default_temperature": "hot", "default_seed": -2, "default_dry_sequence_breakers": [1],
      "default_chat_template_kwargs": [], "default_max_tokens": -5, "unknown": 0,
      "default_reasoning_budget": "x"})"))
                       .value();
  EXPECT_EQ(out.find("applied")->size(), 0U) << out.dump();
  EXPECT_EQ(out.find("rejected")->size(), 10U);
  EXPECT_EQ(*out.find("fingerprint"), *store_.json().find("fingerprint"));
}

TEST_F(SettingsTest, MergeAndReplace) {
  store_.patch(parse(R"({"default_temperature": 0.5, "default_top_k": 9})")).value();
  EXPECT_EQ(temperature(), 0.5);
  const auto snapshot = store_.get();
  store_.patch(parse(R"({"mode": "replace", "settings": {"default_top_k": 3}})")).value();
  EXPECT_EQ(temperature(), 0.0);
  EXPECT_EQ(store_.get()->sampling.top_k, 3);
  EXPECT_EQ(snapshot->sampling.top_k, 9);  // what runs keeps its own
  store_.patch(parse(R"({"default_max_tokens": 5, "default_seed": 11})")).value();
  EXPECT_TRUE(store_.get()->max_tokens_is_cap);
  EXPECT_EQ(*store_.get()->sampling.seed, 11U);
}

TEST_F(SettingsTest, OtherShapesAreRefused) {
  for (const char* body : {"[]", "1", R"({"settings": 1})", R"({"mode": 1, "settings": {}})"}) {
    EXPECT_FALSE(store_.patch(parse(body)).ok()) << body;
  }
}

}  // namespace
}  // namespace mlxcel::serve
