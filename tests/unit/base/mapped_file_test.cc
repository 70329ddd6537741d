#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "testing/paths.h"

namespace mlxcel {
namespace {

using ::mlxcel::testing::TempDir;

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Code open_code(const std::string& path) {
  try {
    (void)MappedFile::open(path);
  } catch (const Error& e) {
    EXPECT_NE(e.message().find(path), std::string::npos) << e.message();
    return e.code();
  }
  ADD_FAILURE() << path << " was mapped";
  return Code::Internal;
}

TEST(MappedFile, ViewsAreTheBytesOfTheFile) {
  const TempDir dir;
  const auto file = MappedFile::open(dir.write("f", "0123456789"));
  EXPECT_EQ(file->size(), 10U);
  EXPECT_EQ(text(file->bytes()), "0123456789");
  EXPECT_EQ(text(file->view(3, 4)), "3456");
  EXPECT_EQ(text(file->view(0, 10)), "0123456789");
  EXPECT_EQ(file->view(10, 0).size(), 0U);
}

TEST(MappedFile, ViewsNeverLeaveTheFile) {
  const TempDir dir;
  const auto file = MappedFile::open(dir.write("f", "0123456789"));
  const uint64_t cases[][2] = {{0, 11},          {10, 1},
                               {11, 0},          {5, UINT64_MAX},
                               {UINT64_MAX, 0},  {UINT64_MAX, UINT64_MAX},
                               {UINT64_MAX, 11}, {2, UINT64_MAX - 1}};
  for (const auto& [offset, length] : cases) {
    try {
      (void)file->view(offset, length);
      ADD_FAILURE() << offset << " + " << length << " was accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::Corrupt);
      EXPECT_NE(e.message().find(file->path()), std::string::npos) << e.message();
    }
  }
}

TEST(MappedFile, EmptyFileHasNoBytes) {
  const TempDir dir;
  const auto file = MappedFile::open(dir.write("f", ""));
  EXPECT_EQ(file->size(), 0U);
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_TRUE(file->view(0, 0).empty());
  EXPECT_THROW((void)file->view(0, 1), Error);
  file->release(file->bytes());
  file->prefetch(file->bytes());
}

TEST(MappedFile, NamesWhatCannotBeMapped) {
  const TempDir dir;
  EXPECT_EQ(open_code(dir.file("absent")), Code::NotFound);
  EXPECT_EQ(open_code(dir.path()), Code::InvalidArgument);
  EXPECT_EQ(open_code("/dev/zero"), Code::InvalidArgument);
}

TEST(MappedFile, ReleasedPagesComeBackFromDisk) {
  const TempDir dir;
  const std::string content(300000, 'x');
  const auto file = MappedFile::open(dir.write("f", content));
  EXPECT_EQ(text(file->bytes()), content);
  file->release(file->view(4097, 200000));
  file->prefetch(file->view(1, 299999));
  EXPECT_EQ(text(file->bytes()), content);
}

}  // namespace
}  // namespace mlxcel
