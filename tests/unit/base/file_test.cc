#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "testing/paths.h"

namespace mlxcel {
namespace {

using ::mlxcel::testing::TempDir;

Code code_of(const std::string& path, uint64_t max_bytes = 1 << 20) {
  try {
    (void)read_file(path, max_bytes);
  } catch (const Error& e) {
    EXPECT_NE(e.message().find(path), std::string::npos) << e.message();
    return e.code();
  }
  ADD_FAILURE() << path << " was read";
  return Code::Internal;
}

TEST(File, ReadsBackWhatWasWritten) {
  const TempDir dir;
  const std::string data = std::string("a\0b\r\n\xff", 6) + std::string(200000, 'x');
  for (const std::string& content : {data, std::string(), std::string("1")}) {
    write_file_atomic(dir.file("f"), content);
    EXPECT_EQ(read_file(dir.file("f")), content);
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path()))
    ++files;
  EXPECT_EQ(files, 1U) << "a temporary file was left behind";
}

TEST(File, LimitIsTheLastByteAllowed) {
  const TempDir dir;
  const std::string path = dir.write("f", std::string(100, 'x'));
  EXPECT_EQ(read_file(path, 100).size(), 100U);
  EXPECT_EQ(code_of(path, 99), Code::ResourceExhausted);
  EXPECT_EQ(code_of(path, 0), Code::ResourceExhausted);
}

TEST(File, LimitHoldsForFilesWithoutASize) {
  // The size of a device is reported as 0; reading it must stop at the limit all the same.
  EXPECT_EQ(code_of("/dev/zero", 1 << 20), Code::ResourceExhausted);
}

TEST(File, NamesWhatCannotBeRead) {
  const TempDir dir;
  EXPECT_EQ(code_of(dir.file("absent")), Code::NotFound);
  EXPECT_EQ(code_of(dir.path()), Code::InvalidArgument);
  EXPECT_EQ(code_of(dir.write("file", "x") + "/below"), Code::NotFound);
}

TEST(File, FailedWriteKeepsTheOldFileAndLeavesNoTrace) {
  const TempDir dir;
  // A folder cannot be replaced by a file.
  std::filesystem::create_directory(dir.file("target"));
  EXPECT_THROW(write_file_atomic(dir.file("target"), "new"), Error);
  EXPECT_TRUE(is_directory(dir.file("target")));
  EXPECT_THROW(write_file_atomic(dir.file("absent/f"), "new"), Error);
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path()))
    ++entries;
  EXPECT_EQ(entries, 1U);
}

TEST(File, ConcurrentWritersLeaveOneWholeFile) {
  const TempDir dir;
  const std::string path = dir.file("f");
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&path, c] {
      for (int i = 0; i < 8; ++i) write_file_atomic(path, std::string(50000, c));
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string data = read_file(path);
  ASSERT_EQ(data.size(), 50000U);
  EXPECT_EQ(data.find_first_not_of(data[0]), std::string::npos);
}

TEST(File, TellsFilesFromFolders) {
  const TempDir dir;
  const std::string file = dir.write("f", "x");
  EXPECT_TRUE(file_exists(file));
  EXPECT_FALSE(is_directory(file));
  EXPECT_FALSE(file_exists(dir.path()));
  EXPECT_TRUE(is_directory(dir.path()));
  EXPECT_FALSE(file_exists(dir.file("absent")));
  EXPECT_FALSE(is_directory(dir.file("absent")));
  std::filesystem::create_symlink(file, dir.file("link"));
  EXPECT_TRUE(file_exists(dir.file("link")));
  std::filesystem::create_symlink(dir.file("absent"), dir.file("dangling"));
  EXPECT_FALSE(file_exists(dir.file("dangling")));
}

}  // namespace
}  // namespace mlxcel
