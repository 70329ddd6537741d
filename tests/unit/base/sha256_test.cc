#include "base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace mlxcel {
namespace {

// Digests of the examples published with FIPS 180-4.
TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  const std::string data(100000, 'a');
  const Digest256 whole = sha256(data);
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{99999}}) {
    Sha256 h;
    const std::string_view rest = data;
    for (size_t at = 0; at < rest.size(); at += piece)
      h.update(rest.substr(at, std::min(piece, rest.size() - at)));
    EXPECT_EQ(h.finish(), whole) << "pieces of " << piece;
  }
}

TEST(Sha256, StartsAnewAfterFinish) {
  Sha256 h;
  h.update("something else");
  (void)h.finish();
  h.update("abc");
  Sha256 moved = std::move(h);
  EXPECT_EQ(moved.finish(), sha256("abc"));
}

TEST(Hex, WritesTwoLowerCaseDigitsPerByte) {
  const uint8_t bytes[] = {0x00, 0x0f, 0xa0, 0xff};
  EXPECT_EQ(hex(bytes), "000fa0ff");
  EXPECT_EQ(hex({}), "");
}

}  // namespace
}  // namespace mlxcel
