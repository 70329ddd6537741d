#include "io/safetensors.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "errors.h"
#include "testing/paths.h"
#include "testing/safetensors_writer.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::SafetensorsWriter;
using mlxcel::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class Safetensors : public ::testing::Test {
 protected:
  std::shared_ptr<const SafetensorsFile> open(const std::string& bytes) const {
    return SafetensorsFile::open(dir_.write("t.safetensors", bytes));
  }
  void refuse(Code code, const std::string& part, const std::string& header,
              const std::string& data = {}) const {
    SCOPED_TRACE(header);
    expect_error(code, part, [&] { open(SafetensorsWriter::raw(header, data)); });
  }
  TempDir dir_;
};

TEST_F(Safetensors, AllElementTypes) {
  SafetensorsWriter w;
  constexpr DType kAll[] = {DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2,
                            DType::I8,  DType::U8,  DType::I16,  DType::U16,    DType::I32,
                            DType::U32, DType::I64, DType::U64,  DType::F64,    DType::Bool};
  for (const DType t : kAll) {
    w.add(std::string(dtype_name(t)), t, {2, 3},
          std::string(static_cast<size_t>(6 * size_of(t)), 'x'));
  }
  const auto file = open(w.bytes());
  ASSERT_EQ(file->tensors().size(), std::size(kAll));
  for (size_t i = 0; i < std::size(kAll); ++i) {
    const SafetensorsTensor& t = file->tensors()[i];
    EXPECT_EQ(t.dtype, kAll[i]);
    EXPECT_EQ(t.name, dtype_name(kAll[i]));
    EXPECT_THAT(t.dims, ElementsAre(2, 3));
    EXPECT_EQ(t.data.size(), static_cast<size_t>(6 * size_of(kAll[i])));
  }
}

TEST_F(Safetensors, ScalarsAndEmptyTensors) {
  const auto file = open(SafetensorsWriter()
                             .add("scalar", DType::F32, {}, std::string(4, '\0'))
                             .add("none", DType::F32, {0}, std::string())
                             .add("thin", DType::F32, {3, 0, 2}, std::string())
                             .bytes());
  ASSERT_EQ(file->tensors().size(), 3U);
  for (const SafetensorsTensor& t : file->tensors()) {
    EXPECT_EQ(t.data.size(), t.name == "scalar" ? 4U : 0U);
  }
}

TEST_F(Safetensors, MetadataOfAnyKind) {
  const std::string good = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  for (const char* metadata :
       {"{}", "null", "7", "true", "\"text\"", "[]", "[{\"dtype\":\"F32\"}]",
        R"({"version":1,"format":"pt"})", R"({"n":{"dtype":"F32","shape":[-1]}})",
        R"({"deep":[[[{"shape":[1,2],"data_offsets":[9,9]}]]],"x":null})"}) {
    SCOPED_TRACE(metadata);
    const auto file = open(SafetensorsWriter::raw(
        fmt::format("{{\"__metadata__\":{},{}", metadata, good), std::string(1, 'x')));
    ASSERT_EQ(file->tensors().size(), 1U);
    EXPECT_EQ(file->tensors()[0].name, "a");
  }
  const auto only = open(SafetensorsWriter::raw(R"({"__metadata__":{"format":"pt","n":1}})"));
  EXPECT_THAT(only->tensors(), IsEmpty());
  EXPECT_THAT(only->metadata(), ElementsAre(Pair("format", "pt")));
  EXPECT_THAT(open(SafetensorsWriter::raw("{}"))->tensors(), IsEmpty());
}

TEST_F(Safetensors, HeaderPaddingAndUnknownFieldsAreAccepted) {
  const auto file = open(SafetensorsWriter::raw(
      R"({"a":{"extra":{"shape":[[1]],"dtype":3},"dtype":"U8","shape":[2],"data_offsets":[0,2],"more":[1]}}    )",
      "xy"));
  ASSERT_EQ(file->tensors().size(), 1U);
  EXPECT_EQ(std::to_integer<char>(file->tensors()[0].data[1]), 'y');
}

TEST_F(Safetensors, LengthsAreChecked) {
  expect_error(Code::Corrupt, "truncated", [&] { open(""); });
  expect_error(Code::Corrupt, "truncated", [&] { open("1234567"); });
  std::string file = SafetensorsWriter().add("a", DType::F32, {2}, std::string(8, 'x')).bytes();
  for (size_t keep = 0; keep < file.size(); ++keep) {
    EXPECT_THROW(open(file.substr(0, keep)), Error) << keep;
  }
  expect_error(Code::Corrupt, "belong to no tensor", [&] { open(file + "x"); });
  for (const uint64_t length :
       {uint64_t{1} << 20, SafetensorsFile::kMaxHeaderBytes + 1, UINT64_MAX, UINT64_MAX - 7}) {
    std::string lie = file;
    std::memcpy(lie.data(), &length, sizeof length);
    expect_error(Code::Corrupt, length > SafetensorsFile::kMaxHeaderBytes ? "limit" : "truncated",
                 [&] { open(lie); });
  }
  expect_error(Code::NotFound, "cannot open", [&] { SafetensorsFile::open(dir_.file("absent")); });
  expect_error(Code::InvalidArgument, "not a regular file",
               [&] { SafetensorsFile::open(dir_.path()); });
}

TEST_F(Safetensors, HeadersThatAreNotAnObjectOfTensors) {
  refuse(Code::Corrupt, "not valid JSON", "{");
  refuse(Code::Corrupt, "not valid JSON", "");
  refuse(Code::Corrupt, "not valid JSON", R"({"a":{"dtype":"U8","shape":[NaN]}})");
  refuse(Code::Corrupt, "not valid JSON", "{\"\xff\":1}");
  refuse(Code::Corrupt, "not valid JSON", "{} {}");
  refuse(Code::Corrupt, "JSON object", "[]");
  refuse(Code::Corrupt, "JSON object", "3");
  refuse(Code::Corrupt, "JSON object", "\"s\"");
  refuse(Code::Corrupt, "JSON object", "null");
  refuse(Code::Corrupt, "expected an object", R"({"a":1})");
  refuse(Code::Corrupt, "expected an object", R"({"a":null})");
  refuse(Code::Corrupt, "expected an object", R"({"a":[{}]})");
  refuse(Code::Corrupt, "\"a\"", R"({"a":"text"})");
  // No stack is used up by depth.
  refuse(Code::Corrupt, "", R"({"a":)" + std::string(100000, '['));
  refuse(Code::Corrupt, "", R"({"__metadata__":)" + std::string(100000, '['));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"bad":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

TEST_F(Safetensors, BadEntriesAreNamed) {
  const std::string f32 = "\"F32\"", data(8, 'x');
  refuse(Code::Corrupt, "\"dtype\" is missing", R"({"bad":{"shape":[2],"data_offsets":[0,8]}})",
         data);
  refuse(Code::Corrupt, "\"shape\" is missing", R"({"bad":{"dtype":"F32","data_offsets":[0,8]}})",
         data);
  refuse(Code::Corrupt, "\"data_offsets\" is missing", R"({"bad":{"dtype":"F32","shape":[2]}})",
         data);
  refuse(Code::Corrupt, "\"dtype\" is missing", R"({"bad":{}})", data);
  refuse(Code::Corrupt, "twice",
         R"({"bad":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data);
  refuse(Code::Corrupt, "unknown dtype \"F31\"", entry("\"F31\"", "[2]", "[0,8]"), data);
  refuse(Code::Corrupt, "unknown dtype", entry("\"\"", "[2]", "[0,8]"), data);
  refuse(Code::Unsupported, "F8_E8M0", entry("\"F8_E8M0\"", "[8]", "[0,8]"), data);
  refuse(Code::Unsupported, "F4", entry("\"F4\"", "[16]", "[0,8]"), data);
  refuse(Code::Corrupt, "a number", entry("4", "[2]", "[0,8]"), data);
  refuse(Code::Corrupt, "an array", entry("[]", "[2]", "[0,8]"), data);
  refuse(Code::Corrupt, "an object", entry(f32, "{}", "[0,8]"), data);
  refuse(Code::Corrupt, "a number", entry(f32, "2", "[0,8]"), data);
  refuse(Code::Corrupt, "null", entry(f32, "null", "[0,8]"), data);
  refuse(Code::Corrupt, "negative number -2", entry(f32, "[-2]", "[0,8]"), data);
  refuse(Code::Corrupt, "not a 64-bit integer", entry(f32, "[2.0]", "[0,8]"), data);
  refuse(Code::Corrupt, "not a 64-bit integer", entry(f32, "[99999999999999999999]", "[0,8]"),
         data);
  refuse(Code::Corrupt, "holds a string", entry(f32, "[\"2\"]", "[0,8]"), data);
  refuse(Code::Corrupt, "nested list", entry(f32, "[[2]]", "[0,8]"), data);
  refuse(Code::Corrupt, "an object", entry(f32, "[{}]", "[0,8]"), data);
  refuse(Code::Unsupported, "rank 7", entry(f32, "[1,1,1,1,1,1,2]", "[0,8]"), data);
  refuse(Code::Corrupt, "too many elements", entry(f32, "[18446744073709551615]", "[0,8]"), data);
  refuse(Code::Corrupt, "too many elements", entry(f32, "[4294967296,4294967296]", "[0,0]"), data);
  refuse(Code::Corrupt, "too many elements", entry(f32, "[0,4294967296,4294967296]", "[0,0]"),
         data);
  // 4 * 2^62 would wrap to 0.
  refuse(Code::Corrupt, "too many elements", entry(f32, "[4611686018427387904]", "[0,0]"), data);
}

TEST_F(Safetensors, BadOffsetsAreNamed) {
  const std::string f32 = "\"F32\"", data(8, 'x');
  refuse(Code::Corrupt, "holds 1 numbers", entry(f32, "[2]", "[0]"), data);
  refuse(Code::Corrupt, "holds 3 numbers", entry(f32, "[2]", "[0,8,8]"), data);
  refuse(Code::Corrupt, "backwards", entry(f32, "[2]", "[8,0]"), data);
  refuse(Code::Corrupt, "takes 8 bytes", entry(f32, "[2]", "[0,4]"), data);
  refuse(Code::Corrupt, "negative", entry(f32, "[2]", "[-8,0]"), data);
  refuse(Code::Corrupt, "truncated: tensor \"bad\"", entry(f32, "[2]", "[8,16]"), data);
  refuse(Code::Corrupt, "truncated: tensor \"bad\"",
         entry(f32, "[2]", "[18446744073709551607,18446744073709551615]"), data);
  refuse(Code::Corrupt, "hole of 4 bytes", entry(f32, "[1]", "[4,8]"), data);
  refuse(Code::Corrupt, "4 bytes after the last tensor", entry(f32, "[1]", "[0,4]"), data);
  const char* two =
      R"({{"a":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}},"{}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}}})";
  refuse(Code::Corrupt, "names \"a\" twice", fmt::format(fmt::runtime(two), "a", 4, 8), data);
  refuse(Code::Corrupt, "overlaps", fmt::format(fmt::runtime(two), "b", 0, 4), data.substr(4));
  refuse(Code::Corrupt, "overlaps", fmt::format(fmt::runtime(two), "b", 2, 6), data.substr(2));
  refuse(Code::Corrupt, "\"__metadata__\" twice", R"({"__metadata__":{},"__metadata__":{}})");
}

}  // namespace
}  // namespace mlxcel::io
