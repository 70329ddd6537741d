#include "base/error.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace mlxcel {
namespace {

TEST(Error, ContextGoesBeforeTheMessageAndKeepsTheCode) {
  const Error inner(Code::Corrupt, "expected [2, 3], found [3, 2]");
  const Error outer = inner.within("weight").within("layers.3");
  EXPECT_EQ(outer.code(), Code::Corrupt);
  EXPECT_EQ(outer.message(), "layers.3: weight: expected [2, 3], found [3, 2]");
  EXPECT_STREQ(outer.what(), outer.message().c_str());
}

TEST(Error, WithContextWrapsErrorsOnly) {
  EXPECT_EQ(with_context("a", [] { return 7; }), 7);
  try {
    with_context("a", [] {
      return with_context("b", []() -> int { throw Error(Code::NotFound, "no such key"); });
    });
    FAIL() << "no error left with_context";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::NotFound);
    EXPECT_EQ(e.message(), "a: b: no such key");
  }
  EXPECT_THROW(with_context("a", []() -> int { throw std::out_of_range("x"); }), std::out_of_range);
}

TEST(Error, EveryCodeHasItsOwnName) {
  const std::vector<Code> codes = {Code::InvalidArgument,   Code::NotFound,  Code::Unsupported,
                                   Code::ResourceExhausted, Code::Cancelled, Code::Deadline,
                                   Code::Corrupt,           Code::Internal};
  std::set<std::string_view> names;
  for (const Code code : codes) names.insert(code_name(code));
  EXPECT_EQ(names.size(), codes.size());
  EXPECT_EQ(code_name(Code::ResourceExhausted), "resource_exhausted");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::string> good(std::string("text"));
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(good.value(), "text");
  EXPECT_EQ(std::move(good).value(), "text");

  Result<std::string> bad(Error(Code::Unsupported, "no"));
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), Code::Unsupported);
  EXPECT_THROW((void)bad.value(), Error);
  EXPECT_THROW((void)std::as_const(bad).value(), Error);
  EXPECT_THROW((void)std::move(bad).value(), Error);
}

TEST(Check, ThrowsInternalWithPlaceAndExpression) {
  EXPECT_NO_THROW(MLXCEL_CHECK(1 + 1 == 2, "arithmetic"));
  try {
    MLXCEL_CHECK(1 + 1 == 3, "arithmetic is broken");
    FAIL() << "the check passed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Internal);
    EXPECT_NE(e.message().find("error_test.cc:"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("arithmetic is broken"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("1 + 1 == 3"), std::string::npos) << e.message();
  }
}

}  // namespace
}  // namespace mlxcel
