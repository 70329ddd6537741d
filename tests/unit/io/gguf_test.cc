#include "io/gguf.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "errors.h"
#include "testing/gguf_writer.h"
#include "testing/paths.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::GgufWriter;
using mlxcel::testing::TempDir;
using ::testing::ElementsAre;

template <class T>
std::string raw_bytes(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

class Gguf : public ::testing::Test {
 protected:
  std::shared_ptr<const GgufFile> open(const std::string& bytes) const {
    return GgufFile::open(dir_.write("t.gguf", bytes));
  }
  void refuse(Code code, const std::string& part, const std::string& bytes) const {
    expect_error(code, part, [&] { open(bytes); });
  }
  void refuse(Code code, const std::string& part, const GgufWriter& writer) const {
    refuse(code, part, writer.bytes());
  }
  TempDir dir_;
};

GgufWriter sample() {
  const float ones[] = {1, 2, 3, 4, 5, 6};
  const int32_t kinds[] = {1, -2, 3};
  GgufWriter w;
  w.str("general.architecture", "llama").u32("n", 7).i32("minus", -7).u64("big", UINT64_MAX);
  w.f32("x", 0.5F).flag("yes", true).strings("words", {"a", "", "\xff"}).f32s("reals", ones);
  w.i32s("kinds", kinds)
      .add("m", {2, 3}, ones)
      .add("q", GgmlType::Q8_0, {1, 32}, std::string(34, 1));
  return w;
}

TEST_F(Gguf, ValuesOfAllKinds) {
  const auto file = open(sample().bytes());
  EXPECT_EQ(file->str_or("general.architecture", ""), "llama");
  EXPECT_EQ(file->i64_or("n", 0), 7);
  EXPECT_EQ(file->i64_or("minus", 0), -7);
  EXPECT_EQ(file->i64_or("absent", 3), 3);
  EXPECT_EQ(file->f64_or("x", 0), 0.5);
  EXPECT_EQ(file->f64_or("n", 0), 7.0);
  EXPECT_TRUE(file->flag_or("yes", false));
  EXPECT_THAT(*file->strings("words"), ElementsAre("a", "", "\xff"));
  EXPECT_THAT(file->f32s("reals"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file->i32s("kinds"), ElementsAre(1, -2, 3));
  EXPECT_THAT(file->f32s("kinds"), ElementsAre(1, -2, 3));
  EXPECT_EQ(file->strings("absent"), nullptr);
  EXPECT_EQ(file->keys().size(), 9U);
  EXPECT_THAT(file->tensor("m")->dims, ElementsAre(2, 3));
  EXPECT_EQ(file->tensor("m")->data.size(), 24U);
  EXPECT_EQ(file->tensor("absent"), nullptr);
  EXPECT_EQ(file->tensor_bytes(), 24 + 34);
  for (const auto& [key, part] :
       {std::pair{"big", "64-bit integer"}, {"x", "64-bit integer"}, {"words", "64-bit integer"}}) {
    expect_error(Code::InvalidArgument, part, [&] { file->i64_or(key, 0); });
  }
  expect_error(Code::InvalidArgument, "\"n\" must be a string", [&] { file->str_or("n", ""); });
  expect_error(Code::InvalidArgument, "a boolean", [&] { file->flag_or("n", false); });
  expect_error(Code::InvalidArgument, "array of strings", [&] { file->strings("reals"); });
  expect_error(Code::InvalidArgument, "array of integers", [&] { file->i32s("reals"); });
  expect_error(Code::InvalidArgument, "array of numbers", [&] { file->f32s("words"); });
}

TEST_F(Gguf, VersionTwoAndOtherAlignments) {
  EXPECT_EQ(open(sample().version(2).bytes())->tensors().size(), 2U);
  const float values[] = {1, 2, 3};
  for (const uint32_t alignment : {8U, 64U, 4096U}) {
    const auto file =
        open(GgufWriter().alignment(alignment).add("a", {3}, values).add("b", {3}, values).bytes());
    float got[3];
    std::memcpy(got, file->tensor("b")->data.data(), sizeof got);
    EXPECT_THAT(got, ElementsAre(1, 2, 3));
  }
  for (const uint32_t alignment : {0U, 4U, 12U, 1U << 21}) {
    GgufWriter w;
    w.u32("general.alignment", alignment);
    refuse(Code::Corrupt, "general.alignment", w);
  }
  refuse(Code::Corrupt, "general.alignment", GgufWriter().str("general.alignment", "32"));
}

TEST_F(Gguf, OtherFilesAreRefusedByName) {
  refuse(Code::Corrupt, "not a GGUF file", std::string());
  refuse(Code::Corrupt, "not a GGUF file", std::string("GGML\3\0\0\0", 8));
  refuse(Code::Corrupt, "truncated", std::string("GGUF"));
  refuse(Code::Unsupported, "version 1", sample().version(1));
  refuse(Code::Unsupported, "version 4", sample().version(4));
  refuse(Code::Unsupported, "big-endian", sample().version(0x03000000));
  expect_error(Code::NotFound, "cannot open", [&] { GgufFile::open(dir_.file("absent.gguf")); });
}

TEST_F(Gguf, EveryTruncationIsAnError) {
  const std::string whole = sample().bytes();
  const size_t padding = 32 - 34 % 32;  // after the last tensor
  for (size_t keep = 0; keep < whole.size() - padding; ++keep) {
    EXPECT_THROW(open(whole.substr(0, keep)), Error) << keep;
  }
  EXPECT_NO_THROW(open(whole.substr(0, whole.size() - padding)));
}

TEST_F(Gguf, CountsAndLengthsBeyondTheFile) {
  std::string counts = sample().bytes();
  for (const size_t at : {8U, 16U}) {
    for (const uint64_t lie : {UINT64_MAX, uint64_t{1} << 40, uint64_t{100000}}) {
      std::string bytes = counts;
      std::memcpy(bytes.data() + at, &lie, sizeof lie);
      refuse(Code::Corrupt, "do not fit", bytes);
    }
  }
  for (const uint64_t lie : {UINT64_MAX, UINT64_MAX / 4 + 1, uint64_t{1} << 40}) {
    refuse(Code::Corrupt, "truncated", GgufWriter().raw("k", 8, raw_bytes(lie)));
    for (const uint32_t element : {0U, 4U, 8U, 12U}) {
      refuse(Code::Corrupt, "truncated",
             GgufWriter().raw("k", 9, raw_bytes(element) + raw_bytes(lie)));
    }
  }
  refuse(Code::Corrupt, "unknown value type 13", GgufWriter().raw("k", 13, "12345678"));
  refuse(Code::Corrupt, "unknown element type 77",
         GgufWriter().raw("k", 9, raw_bytes(77U) + raw_bytes(uint64_t{0})));
  refuse(Code::Unsupported, "nested array",
         GgufWriter().raw("k", 9, raw_bytes(9U) + raw_bytes(uint64_t{1})));
  refuse(Code::Corrupt, "\"k\" is given twice", GgufWriter().u32("k", 1).u32("k", 2));
  refuse(Code::Corrupt, "at most 65535", GgufWriter().u32(std::string(70000, 'k'), 1));
}

TEST_F(Gguf, BadTensorsAreNamed) {
  const float one[] = {1};
  const std::string block(18, 1);
  refuse(Code::Corrupt, "\"t\" is given twice", GgufWriter().add("t", {1}, one).add("t", {1}, one));
  refuse(Code::Corrupt, "5 dimensions", GgufWriter().add("t", {1, 1, 1, 1, 1}, one));
  refuse(Code::Corrupt, "too large", GgufWriter().add("t", {INT64_MAX}, one));
  refuse(Code::Corrupt, "too large", GgufWriter().add("t", {-1}, one));
  refuse(Code::Corrupt, "too large", GgufWriter().add("t", {1LL << 30, 1LL << 30}, one));
  refuse(Code::Corrupt, "too large", GgufWriter().add("t", {0, 1LL << 50, 1LL << 50}, one));
  refuse(Code::Corrupt, "truncated: tensor \"t\"", GgufWriter().add("t", {1LL << 50}, one));
  refuse(Code::Corrupt, "truncated: tensor \"t\"", GgufWriter().add("t", {100}, one));
  refuse(Code::Corrupt, "not a multiple of 32", GgufWriter().add("t", GgmlType::Q4_0, {31}, block));
  refuse(Code::Corrupt, "not a multiple of 256",
         GgufWriter().add("t", GgmlType::Q4_K, {32}, block));
  refuse(Code::Corrupt, "unknown type 4",
         GgufWriter().add("t", static_cast<GgmlType>(4), {32}, block));
  refuse(Code::Unsupported, "IQ4_XS",
         GgufWriter().add("t", static_cast<GgmlType>(23), {32}, block));
  refuse(Code::Unsupported, "MXFP4", GgufWriter().add("t", static_cast<GgmlType>(39), {32}, block));
  expect_error(Code::Unsupported, "i32", [&] {
    const auto file = open(GgufWriter().add("t", GgmlType::I32, {1, 1}, "1234").bytes());
    gguf_matrix(file, *file->tensor("t"));
  });
}

TEST_F(Gguf, OffsetsAreChecked) {
  const std::string bytes = GgufWriter()
                                .add("a", GgmlType::F32, {8}, std::string(32, 'a'))
                                .add("b", GgmlType::F32, {8}, std::string(32, 'b'))
                                .bytes();
  // The tensor table is 24 bytes of header, then name (8 + 1), rank 4, dimension 8, type 4,
  // offset 8.
  const size_t first = 24 + 9 + 4 + 8 + 4, second = first + 8 + 9 + 4 + 8 + 4;
  const auto with_offset = [&](size_t at, uint64_t offset) {
    std::string lie = bytes;
    std::memcpy(lie.data() + at, &offset, sizeof offset);
    return lie;
  };
  EXPECT_EQ(open(with_offset(second, 32))->tensors().size(), 2U);
  refuse(Code::Corrupt, "overlap", with_offset(second, 0));
  refuse(Code::Corrupt, "not a multiple of 32", with_offset(second, 31));
  refuse(Code::Corrupt, "truncated", with_offset(second, 64));
  refuse(Code::Corrupt, "truncated", with_offset(first, UINT64_MAX - 31));
}

GgufWriter part(uint16_t number, uint16_t count, int32_t total) {
  GgufWriter w;
  const float value[] = {static_cast<float>(number)};
  w.u16("split.no", number).u16("split.count", count).i32("split.tensors.count", total);
  w.add(fmt::format("t{}", number), {1}, value);
  return w;
}

TEST_F(Gguf, SplitModels) {
  for (uint16_t i = 0; i < 3; ++i) {
    part(i, 3, 3).write(dir_.file(fmt::format("m-{:05}-of-00003.gguf", i + 1)));
  }
  const auto file = GgufFile::open(dir_.file("m-00001-of-00003.gguf"));
  ASSERT_EQ(file->tensors().size(), 3U);
  for (int i = 0; i < 3; ++i) {
    float value = 0;
    std::memcpy(&value, file->tensor(fmt::format("t{}", i))->data.data(), sizeof value);
    EXPECT_EQ(value, static_cast<float>(i));
  }
  expect_error(Code::InvalidArgument, "not the first part",
               [&] { GgufFile::open(dir_.file("m-00002-of-00003.gguf")); });
  part(0, 3, 3).write(dir_.file("other.gguf"));
  expect_error(Code::InvalidArgument, "name the first",
               [&] { GgufFile::open(dir_.file("other.gguf")); });
  part(0, 2, 5).write(dir_.file("n-00001-of-00002.gguf"));
  expect_error(Code::NotFound, "n-00002-of-00002.gguf",
               [&] { GgufFile::open(dir_.file("n-00001-of-00002.gguf")); });
  part(1, 2, 5).write(dir_.file("n-00002-of-00002.gguf"));
  expect_error(Code::Corrupt, "split.tensors.count",
               [&] { GgufFile::open(dir_.file("n-00001-of-00002.gguf")); });
  part(0, 2, 2).write(dir_.file("n-00001-of-00002.gguf"));
  part(0, 2, 2).write(dir_.file("n-00002-of-00002.gguf"));
  expect_error(Code::Corrupt, "is also in",
               [&] { GgufFile::open(dir_.file("n-00001-of-00002.gguf")); });
}

}  // namespace
}  // namespace mlxcel::io
