#include "base/json.h"

#include <gtest/gtest.h>

namespace mlxcel {
namespace {

TEST(Json, KeepsKeyOrderAndNumberKinds) {
  const Json v = Json::parse(R"({"z":1,"a":[1.0,true,null,"x"],"m":{}})").value();
  EXPECT_EQ(v.dump(), R"({"z":1,"a":[1.0,true,null,"x"],"m":{}})");
  EXPECT_TRUE(v.find("z")->is_int());
}

TEST(Json, LastOfDuplicateKeysWins) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})").value().dump(), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 40; ++i)
    many += "\"k" + std::to_string(i % 20) + "\":" + std::to_string(i) + ",";
  many.back() = '}';
  const Json v = Json::parse(many).value();
  EXPECT_EQ(v.size(), 20U);
  EXPECT_EQ(v.find("k3")->as_int(), 23);
}

TEST(Json, ErrorsNameThePlace) {
  const auto r = Json::parse("{\n  \"a\": ]\n}");
  ASSERT_FALSE(r.ok());
  EXPECT_NE(r.error().message().find("line 2"), std::string::npos) << r.error().message();
}

TEST(Json, DepthAndSizeAreLimited) {
  EXPECT_EQ(Json::parse(std::string(100000, '[')).error().code(), Code::ResourceExhausted);
  EXPECT_EQ(Json::parse("[1]", {.max_bytes = 2}).error().code(), Code::ResourceExhausted);
}

TEST(Json, NonFiniteOnlyWhenAllowed) {
  EXPECT_FALSE(Json::parse("[NaN]").ok());
  EXPECT_EQ(
      Json::parse(R"([NaN,-Infinity,"NaN \" Infinity"])", {.allow_nonfinite = true}).value().dump(),
      R"([null,null,"NaN \" Infinity"])");
  EXPECT_FALSE(Json::parse("[1e999]").ok());
}

TEST(Json, WrongKindNamesBoth) {
  try {
    (void)Json("x").as_int();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "expected integer, found string");
  }
}

TEST(Json, DumpRepairsAndEscapes) {
  EXPECT_EQ(Json("a\x01\xff\"").dump(), "\"a\\u0001\xEF\xBF\xBD\\\"\"");
}

}  // namespace
}  // namespace mlxcel
