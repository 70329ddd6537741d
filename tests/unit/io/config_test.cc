#include "io/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "testing/paths.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Config parse(const std::string& text) {
  const TempDir dir;
  return Config::load(dir.write("config.json", text));
}

TEST(Config, ReadsLeniently) {
  const Config c =
      parse("\xEF\xBB\xBF{\"a\": NaN, \"b\": -Infinity, \"c\": [Infinity], \"d\": 4096.0}\n");
  EXPECT_FALSE(c.has("a"));
  EXPECT_EQ(c.f64_or("b", 2.5), 2.5);
  EXPECT_EQ(c.i64("d"), 4096);
  expect_error(Code::InvalidArgument, "\"a\" is missing", [&] { c.f64("a"); });
}

TEST(Config, FilesThatAreNoConfig) {
  const TempDir dir;
  const auto refuse = [&](const std::string& part, const std::string& text) {
    SCOPED_TRACE(text);
    expect_error(Code::InvalidArgument, part,
                 [&] { Config::load(dir.write("config.json", text)); });
  };
  for (const char* text : {"", "{", "hello", "{\"a\":1,}", "{'a':1}", "{\"a\":\"\xff\"}"}) {
    refuse("config.json is not valid JSON", text);
  }
  for (const char* text : {"[]", "1", "null", "\"x\""}) refuse("expected a JSON object", text);
  expect_error(Code::ResourceExhausted, "nested deeper", [&] {
    Config::load(dir.write("config.json", "{\"a\":" + std::string(100000, '[')));
  });
  expect_error(Code::NotFound, "absent.json", [&] { Config::load(dir.file("absent.json")); });
}

TEST(Config, ValidatesStrictly) {
  const Config c = parse(
      R"({"n":"7","f":1.5,"t":true,"s":5,"big":1e300,"huge":18446744073709551615,"neg":-1,
          "o":{"p":{"q":"x"}},"list":[1,2.0],"mixed":[1,"2"],"d.t":1})");
  expect_error(Code::InvalidArgument, "\"n\" must be an integer, but it is \"7\"",
               [&] { c.i64("n"); });
  expect_error(Code::InvalidArgument, "\"f\" must be an integer", [&] { c.i64_or("f", 1); });
  expect_error(Code::InvalidArgument, "\"t\" must be a number", [&] { c.f64("t"); });
  expect_error(Code::InvalidArgument, "\"big\" must be an integer", [&] { c.i64("big"); });
  expect_error(Code::InvalidArgument, "\"huge\" must be an integer", [&] { c.i64("huge"); });
  expect_error(Code::InvalidArgument, "32-bit floats", [&] { c.f32_or("big", 1); });
  expect_error(Code::InvalidArgument, "true or false", [&] { c.flag_or("s", false); });
  expect_error(Code::InvalidArgument, "a string", [&] { c.str("s"); });
  expect_error(Code::InvalidArgument, "a string", [&] { c.str_or("o", ""); });
  expect_error(Code::InvalidArgument, "\"neg\" is -1, outside [1, ", [&] { c.size("neg"); });
  expect_error(Code::InvalidArgument, "\"absent\" is missing", [&] { c.size("absent"); });
  expect_error(Code::InvalidArgument, "an object", [&] { c.at("list"); });
  expect_error(Code::InvalidArgument, "a list of them", [&] { c.i64s("mixed"); });
  expect_error(Code::InvalidArgument, "config.json: \"o.p.q\" must be an integer",
               [&] { c.at("o").at("p").i64("q"); });
  expect_error(Code::Unsupported, "only \"y\" is supported", [&] { c.expect("o.p.q", "y"); });
  EXPECT_NO_THROW(c.expect("o.p.q", "x"));
  EXPECT_NO_THROW(c.expect("absent", "x"));
  EXPECT_NO_THROW(c.expect("t", "true"));
  EXPECT_EQ(c.str("o.p.q"), "x");
  EXPECT_EQ(c.i64("d.t"), 1);
  EXPECT_THAT(c.i64s("list"), ElementsAre(1, 2));
  EXPECT_THAT(c.i64s("neg"), ElementsAre(-1));
  EXPECT_THAT(c.i64s("absent"), IsEmpty());
  EXPECT_EQ(c.size_or("absent", 12), 12);
  EXPECT_FALSE(c.has("o.p.q.r"));
  EXPECT_EQ(&c.at_or_self("absent").json(), &c.json());
}

TEST(Config, KnowsWhatWasNotRead) {
  const Config c = parse(R"({"a":1,"b":{"x":1},"c":null,"d":2,"e":3})");
  const Config copy = c;
  copy.i64("a");
  copy.has("b.x");
  EXPECT_THAT(c.unread(), ElementsAre("c", "d", "e"));
}

}  // namespace
}  // namespace mlxcel::io
