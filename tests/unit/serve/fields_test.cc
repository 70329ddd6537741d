#include "serve/wire/fields.h"

#include <gmock/gmock.h>

namespace mlxcel::serve::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json object(const char* text) { return Json::parse(text).value(); }

TEST(Fields, NullAndAbsentLeaveTheDefault) {
  const Json json = object(R"({"a": null})");
  Fields f(json);
  bool flag = true;
  int32_t number = 7;
  std::string text = "x";
  f.boolean("a", flag);
  f.integer("a", number);
  f.integer("b", number);
  f.string("a", text);
  EXPECT_TRUE(f.ok());
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, 7);
  EXPECT_EQ(text, "x");
  EXPECT_FALSE(f.has("a"));
}

TEST(Fields, WholeNumbersMayBeWrittenAsReals) {
  const Json json = object(R"({"a": 5.0, "b": 5.5, "c": 1e30, "d": 99999999999})");
  int32_t value = 0;
  Fields whole(json);
  whole.integer("a", value);
  EXPECT_TRUE(whole.ok());
  EXPECT_EQ(value, 5);
  for (const char* key : {"b", "c", "d"}) {
    Fields f(json, "outer.");
    f.integer(key, value);
    ASSERT_FALSE(f.ok()) << key;
    EXPECT_THAT(f.error().message(), HasSubstr(std::string("'outer.") + key + "'"));
    EXPECT_EQ(f.error().code(), Code::InvalidArgument);
  }
  EXPECT_EQ(value, 5);
}

TEST(Fields, TheFirstErrorIsKeptAndNothingIsReadAfterIt) {
  const Json json = object(R"({"a": "x", "b": 5, "c": 3})");
  Fields f(json);
  int32_t value = 0;
  f.integer("a", value);
  std::string text;
  f.string("b", text);
  f.integer("c", value);
  EXPECT_THAT(f.error().message(), HasSubstr("'a'"));
  EXPECT_THAT(f.error().message(), HasSubstr("string"));
  EXPECT_EQ(value, 0);
}

TEST(Fields, RangesChoicesAndLists) {
  const Json json = object(R"({"p": 1.5, "word": "green", "one": "a", "many": ["a", "b"],
                               "mixed": ["a", 5]})");
  float p = 0;
  std::string word;
  std::vector<std::string> list;
  Fields range(json);
  range.number("p", p, 0, 1);
  EXPECT_THAT(range.error().message(), HasSubstr("0 to 1"));
  Fields choice(json);
  choice.choice("word", word, {"red", "blue"});
  EXPECT_THAT(choice.error().message(), HasSubstr("'red', 'blue'"));
  Fields good(json);
  good.strings("one", list);
  EXPECT_THAT(list, ElementsAre("a"));
  good.strings("many", list);
  EXPECT_THAT(list, ElementsAre("a", "b"));
  EXPECT_TRUE(good.ok());
  good.strings("mixed", list);
  EXPECT_FALSE(good.ok());
}

TEST(ParseBody, RefusesWhatIsNoObject) {
  EXPECT_TRUE(parse_body("{}").ok());
  for (const char* body :
       {"", "[]", "null", "{", "{\"a\": NaN}", "{\"a\": 1e999}", "{\"a\": \"\xff\"}"}) {
    const Result<Json> r = parse_body(body);
    ASSERT_FALSE(r.ok()) << body;
    EXPECT_EQ(r.error().code(), Code::InvalidArgument);
  }
  EXPECT_FALSE(parse_body("{\"a\": " + std::string(1000, '[') + std::string(1000, ']') + "}").ok());
}

}  // namespace
}  // namespace mlxcel::serve::wire
