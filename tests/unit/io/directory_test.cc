// What open_checkpoint makes of directories: indexes, stale ones, several files, nothing at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "errors.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "testing/gguf_writer.h"
#include "testing/paths.h"
#include "testing/safetensors_writer.h"

namespace mlxcel::io {
namespace {

using mlxcel::testing::GgufWriter;
using mlxcel::testing::SafetensorsWriter;
using mlxcel::testing::TempDir;
using ::testing::ElementsAre;

class Directory : public ::testing::Test {
 protected:
  void SetUp() override { dir_.write("config.json", R"({"model_type":"LLaMA"})"); }
  void tensor(const std::string& file, const std::string& name) const {
    const float one[] = {1};
    SafetensorsWriter().add(name, DType::F32, {1}, one).write(dir_.file(file));
  }
  void index(const std::string& weight_map) const {
    dir_.write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":)" + weight_map + "}");
  }
  std::vector<std::string> names() const {
    return open_checkpoint(dir_.path()).weights({}).unused();
  }
  void refuse(Code code, const std::string& part) const {
    expect_error(code, part, [&] { names(); });
  }
  TempDir dir_;
};

TEST_F(Directory, OneFile) {
  tensor("model.safetensors", "a");
  EXPECT_THAT(names(), ElementsAre("a"));
  const Checkpoint c = open_checkpoint(dir_.path() + "/");
  EXPECT_EQ(c.model_type(), "llama");
  EXPECT_EQ(c.weight_bytes(), 4);
}

TEST_F(Directory, IndexChoosesTheFiles) {
  tensor("model-00001-of-00002.safetensors", "a");
  tensor("model-00002-of-00002.safetensors", "b");
  tensor("other.safetensors", "c");
  index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  // A tensor that lies in another file than the index says is found all the same.
  index(R"({"b":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors"})");
  EXPECT_THAT(names(), ElementsAre("a", "b"));
}

TEST_F(Directory, StaleIndexIsReadPast) {
  tensor("model.safetensors", "a");
  index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("\"model-00001-of-00002.safetensors\""));
}

TEST_F(Directory, IndexWithoutAnyOfItsFiles) {
  index(R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"})");
  refuse(Code::NotFound, "missing: \"model-00001-of-00002.safetensors\", \"model-00002-of-00002");
}

TEST_F(Directory, BrokenIndexes) {
  tensor("model.safetensors", "a");
  dir_.write("model.safetensors.index.json", "{");
  refuse(Code::Corrupt, "index.json is not valid JSON");
  dir_.write("model.safetensors.index.json", "[]");
  refuse(Code::Corrupt, "weight_map");
  for (const char* map : {"7", "[]", R"({"a":7})", R"({"a":""})", R"({"a":"../x.safetensors"})",
                          R"({"a":"/etc/passwd"})", R"({"a":"x\u0000y"})"}) {
    SCOPED_TRACE(map);
    index(map);
    refuse(Code::Corrupt, "index.json");
  }
  index(R"({"a":"config.json"})");
  refuse(Code::Corrupt, "config.json");
  index("{}");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(Directory, WithoutIndexAllFilesButSecondCopies) {
  tensor("model-b.safetensors", "b");
  tensor("model-a.safetensors", "a");
  tensor("consolidated.safetensors", "b");
  tensor("adapters.safetensors", "lora");
  EXPECT_THAT(names(), ElementsAre("a", "b"));
  tensor("zzz.safetensors", "b");
  refuse(Code::Corrupt, "\"b\" occurs more than once");
}

TEST_F(Directory, BrokenLinks) {
  std::filesystem::create_symlink("nowhere", dir_.file("model-2.safetensors"));
  refuse(Code::NotFound, "no weights");
  tensor("model-1.safetensors", "a");
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(Directory, NothingToLoad) {
  refuse(Code::NotFound, "no weights");
  dir_.write("pytorch_model.bin", "x");
  refuse(Code::NotFound, "PyTorch");
  SafetensorsWriter().write(dir_.file("model.safetensors"));
  refuse(Code::NotFound, "holds no tensors");
  std::filesystem::remove(dir_.file("config.json"));
  refuse(Code::NotFound, "config.json is missing");
  expect_error(Code::NotFound, "does not exist", [&] { open_checkpoint(dir_.file("absent")); });
  expect_error(Code::InvalidArgument, "neither a model directory nor a .gguf file",
               [&] { open_checkpoint(dir_.file("model.safetensors")); });
  expect_error(Code::NotFound, "does not exist",
               [&] { open_checkpoint(dir_.file("model.safetensors/x")); });
}

TEST_F(Directory, Unreadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser reads everything";
  tensor("model.safetensors", "a");
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::none);
  refuse(Code::NotFound, "cannot read");
  std::filesystem::permissions(dir_.path(), std::filesystem::perms::owner_all);
}

TEST_F(Directory, BadConfigs) {
  tensor("model.safetensors", "a");
  dir_.write("config.json", "not json");
  refuse(Code::InvalidArgument, "config.json is not valid JSON");
  dir_.write("config.json", "[]");
  refuse(Code::InvalidArgument, "JSON object");
  dir_.write("config.json", "{}");
  expect_error(Code::InvalidArgument, "\"model_type\" is missing",
               [&] { (void)open_checkpoint(dir_.path()).model_type(); });
  dir_.write("generation_config.json", "{");
  refuse(Code::InvalidArgument, "generation_config.json is not valid JSON");
}

TEST_F(Directory, EosIdsAreAUnion) {
  tensor("model.safetensors", "a");
  const auto ids = [&] { return open_checkpoint(dir_.path()).eos_token_ids(); };
  EXPECT_THAT(ids(), ElementsAre());
  dir_.write("config.json", R"({"eos_token_id":[7,-1],"text_config":{"eos_token_id":8}})");
  dir_.write("generation_config.json", R"({"eos_token_id":[5,7,99999999999]})");
  dir_.write("tokenizer_config.json", R"({"eos_token":{"content":"</s>"},"added_tokens_decoder":
      {"x":{"content":"</s>"},"9":{"content":"</s>"},"10":{"content":"<s>"}}})");
  EXPECT_THAT(ids(), ElementsAre(5, 7, 8, 9));
}

TEST_F(Directory, OneGgufModel) {
  const float one[] = {1};
  GgufWriter w;
  w.str("general.architecture", "llama").add("output_norm.weight", {1}, one);
  w.write(dir_.file("a.gguf"));
  EXPECT_THAT(names(), ElementsAre("model.norm.weight"));
  GgufWriter split;
  split.str("general.architecture", "llama").u16("split.no", 0).u16("split.count", 2);
  split.write(dir_.file("b-00001-of-00002.gguf"));
  refuse(Code::InvalidArgument,
         "several GGUF models; name one: \"a.gguf\", \"b-00001-of-00002.gguf\"");
  std::filesystem::remove(dir_.file("a.gguf"));
  GgufWriter second;
  second.u16("split.no", 1).u16("split.count", 2).add("output_norm.weight", {1}, one);
  second.write(dir_.file("b-00002-of-00002.gguf"));
  EXPECT_THAT(names(), ElementsAre("model.norm.weight"));
  tensor("model.safetensors", "st");
  EXPECT_THAT(names(), ElementsAre("st"));
}

}  // namespace
}  // namespace mlxcel::io
