#include "base/utf8.h"

#include <gtest/gtest.h>

namespace mlxcel::utf8 {
namespace {

TEST(Utf8, RoundTripsEveryLength) {
  for (const char32_t cp :
       {U'a', U'\u00e9', U'\u20ac', U'\U0001F600', char32_t{0x10FFFF}, char32_t{0}}) {
    std::string s;
    append(s, cp);
    const Decoded d = decode(s);
    EXPECT_TRUE(d.valid);
    EXPECT_EQ(d.code_point, cp);
    EXPECT_EQ(static_cast<size_t>(d.length), s.size());
  }
}

TEST(Utf8, ReplacesMaximalSubparts) {
  // Unicode 15, table 3-11: three ill-formed prefixes give one replacement each.
  EXPECT_EQ(repair("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(repair("\xC0\xAF\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatMayStillBecomeACharacter) {
  EXPECT_EQ(complete_prefix("a\xE2\x82"), 1U);
  EXPECT_EQ(complete_prefix("a\xE2\x82\xAC"), 4U);
  EXPECT_EQ(complete_prefix("\xF0\x9F\x98"), 0U);
  EXPECT_EQ(complete_prefix("a\xFF"), 2U);
  EXPECT_EQ(complete_prefix("\x80\x80"), 2U);
}

}  // namespace
}  // namespace mlxcel::utf8
